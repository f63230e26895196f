"""Stands in for SGLang's kernel package on hosts without a GPU: release 0.5.9 imports it there, and calls nothing."""
