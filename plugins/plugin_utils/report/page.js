"use strict";
// A link into the details opens them; arrows go from cell to cell; what is not wanted is hidden. Without this script the
// page says the same.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const around = target.closest("details");
  if (around) around.open = true;
  target.scrollIntoView({block: "start"});
  (target.matches("details") ? target.querySelector("summary") : target).focus({preventScroll: true});
}
addEventListener("hashchange", reveal);
addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) reveal();
});
reveal();

const matrix = document.getElementById("matrix");
matrix.addEventListener("keydown", (event) => {
  const link = event.target.closest("a");
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!link || !step) return;
  const shown = [...matrix.querySelectorAll("a")].filter((one) => one.offsetParent !== null);
  const column = (one) => one.closest("th, td").cellIndex;
  const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
  const line = sideways ? shown : shown.filter((one) => column(one) === column(link));
  const next = line[line.indexOf(link) + step];
  if (next) next.focus();
  event.preventDefault();
});

const find = document.getElementById("find"), only = document.getElementById("only");
function sift() {
  const part = find.value.trim().toLowerCase();
  for (const table of matrix.querySelectorAll("table")) {
    let left = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.dataset.host.toLowerCase().includes(part) || (only.checked && row.className === "in_sync");
      left += !row.hidden;
    }
    table.hidden = !left;
  }
}
find.addEventListener("input", sift);
only.addEventListener("change", sift);

let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
