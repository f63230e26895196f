"""The sandbox: hosts on this machine that Ansible reaches by SSH like any other.

Each host is a ``systemd-nspawn`` container with a real systemd and a real sshd, on an overlay over one base image. It
needs root on Debian 12/13 or Ubuntu 22.04+, whether PID 1 there is systemd or not. Only the standard library is used:
the sandbox runs before any environment exists. Start with ``python3 -m tests.sandbox --help``.
"""
