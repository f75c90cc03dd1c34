"use strict";
// Weights are thousandths, row after row: a row for each target word, a column for each source word. A cell is
// {row, column}: a target word has no column, a source word no row.
const STRONG = 0.7; // from here on words change their color; see the style sheet
const MAX_NUMBERED = 12; // a table of at most this many columns has numbers in its cells
const MAX_NAMED = 3; // how many words the sentence below a pair names

function create(tag, text, name) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function paint(element, weight) {
  element.style.setProperty("--weight", weight);
  element.classList.toggle("strong", weight >= STRONG);
}

function cellOf(element) {
  const closest = element.closest("[data-row], [data-column]");
  if (!closest) return null;
  const { row, column } = closest.dataset;
  return { row: row === undefined ? null : Number(row), column: column === undefined ? null : Number(column) };
}

function wordButtons(section, selector, key) {
  return [...section.querySelectorAll(selector)].map((button, index) => {
    button.dataset[key] = index;
    button.append(create("span", "", "weight"));
    return button;
  });
}

function start(section, pair) {
  const sources = wordButtons(section, ".source button", "column");
  const targets = wordButtons(section, ".target button", "row");
  const select = section.querySelector("select");
  const table = section.querySelector(".map");
  const summary = section.querySelector(".summary");
  const columns = pair.source.length;
  let pinned = null;

  const weightAt = (row, column) => pair.matrices[select ? Number(select.value) : 0][row * columns + column] / 1000;
  const contains = (links, row, column) => links.some((link) => link[0] === column && link[1] === row);
  const goldLink = (row, column) =>
    contains(pair.sure, row, column) ? "sure" : contains(pair.possible, row, column) ? "possible" : "";

  function tableCell(row, column) {
    const weight = weightAt(row, column);
    const element = create("td", columns <= MAX_NUMBERED ? weight.toFixed(2) : "");
    Object.assign(element.dataset, { row, column });
    element.title = `${pair.target[row]} – ${pair.source[column]}: ${weight.toFixed(3)}`;
    paint(element, weight);
    const link = goldLink(row, column);
    if (link) element.append(create("i", "", link));
    const span = pair.window_spans[row];
    if (span) {
      const [centre, first, last] = span;
      if (column === Math.round(first)) element.append(create("i", "", "first"));
      if (column === Math.round(last)) element.append(create("i", "", "last"));
      if (column === Math.min(columns - 1, Math.max(0, Math.round(centre)))) {
        const mark = create("i", "", "centre");
        mark.style.left = `${100 * Math.min(1, Math.max(0, centre - column + 0.5))}%`;
        element.append(mark);
      }
    }
    return element;
  }

  function heading(word, key, index) {
    const element = create("th");
    element.append(create("bdi", word));
    element.dataset[key] = index;
    element.scope = key === "row" ? "row" : "col";
    element.title = word;
    return element;
  }

  function confidenceCell(row) {
    const element = create("td", `${Math.round(100 * pair.confidences[row])} %`, "confidence");
    element.dataset.row = row;
    element.title = `${pair.target[row]}: right with a probability of ${pair.confidences[row].toFixed(2)}`;
    return element;
  }

  function drawTable() {
    const head = create("tr");
    const ofWords = pair.confidences ? [create("th", "confidence")] : [];
    head.append(create("th"), ...ofWords, ...pair.source.map((word, column) => heading(word, "column", column)));
    const rows = pair.target.map((word, row) => {
      const line = create("tr");
      const sure = pair.confidences ? [confidenceCell(row)] : [];
      line.append(heading(word, "row", row), ...sure, ...pair.source.map((_, column) => tableCell(row, column)));
      return line;
    });
    const [top, body] = [create("thead"), create("tbody")];
    top.append(head);
    body.append(...rows);
    table.classList.toggle("many", columns > MAX_NUMBERED);
    table.replaceChildren(top, body);
  }

  function updateButton(button, selected, weight, link) {
    button.classList.toggle("selected", selected);
    button.classList.toggle("sure", link === "sure");
    button.classList.toggle("possible", link === "possible");
    button.querySelector(".weight").textContent = weight === null ? "" : weight.toFixed(2);
    paint(button, weight === null ? 0 : weight);
  }

  function summarize(cell) {
    summary.replaceChildren();
    if (!cell) return;
    const isTarget = cell.row !== null;
    const [word, others] = isTarget ? [pair.target[cell.row], pair.source] : [pair.source[cell.column], pair.target];
    const weights = others.map((other, index) => [
      isTarget ? weightAt(cell.row, index) : weightAt(index, cell.column), other,
    ]);
    weights.sort((left, right) => right[0] - left[0]);
    summary.append(create("bdi", word), isTarget ? " attends to " : " is attended to by ");
    weights.slice(0, MAX_NAMED).forEach(([weight, other], rank) => {
      summary.append(rank ? ", " : "", create("bdi", other), ` ${weight.toFixed(2)}`);
    });
  }

  function highlight(cell) {
    const row = cell ? cell.row : null;
    const column = cell ? cell.column : null;
    sources.forEach((button, index) => {
      const active = row !== null;
      updateButton(button, index === column, active ? weightAt(row, index) : null, active ? goldLink(row, index) : "");
    });
    targets.forEach((button, index) => {
      const active = row === null && column !== null;
      const weight = active ? weightAt(index, column) : null;
      updateButton(button, index === row, weight, active ? goldLink(index, column) : "");
    });
    table.querySelectorAll("[data-row], [data-column]").forEach((element) => {
      const other = cellOf(element);
      const inRow = row !== null && other.row === row;
      const inColumn = column !== null && other.column === column;
      element.classList.toggle("lit", inRow || inColumn);
    });
    summarize(cell);
  }

  const follow = (event) => highlight(cellOf(event.target) || pinned);
  section.addEventListener("mouseover", follow);
  section.addEventListener("focusin", follow);
  section.addEventListener("mouseleave", () => highlight(pinned));
  section.addEventListener("focusout", () => highlight(pinned));
  section.addEventListener("click", (event) => {
    const cell = cellOf(event.target);
    if (!cell) return;
    const again = pinned && pinned.row === cell.row && pinned.column === cell.column;
    pinned = again ? null : cell;
    highlight(pinned);
  });
  section.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    highlight(null);
  });
  if (select) {
    select.addEventListener("change", () => {
      drawTable();
      highlight(pinned);
    });
  }
  drawTable();
}

const pairs = JSON.parse(document.getElementById("pairs").textContent);
[...document.querySelectorAll(".pair")].forEach((section, index) => start(section, pairs[index]));
