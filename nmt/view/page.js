"use strict";
// Weights are thousandths, row after row: a row for each target word, a column for each source word. A place is
// {row, column}: a target word has no column, a source word no row, a cell has both.
const STRONG = 0.7; // from here on words change their colour; see the style sheet
const NUMBERED = 12; // a table of at most this many columns has numbers in its cells
const NAMED = 3; // how many words the sentence below a pair names

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function paint(element, weight) {
  element.style.setProperty("--weight", weight);
  element.classList.toggle("strong", weight >= STRONG);
}

function place(element) {
  const spot = element.closest("[data-row], [data-column]");
  if (!spot) return null;
  const { row, column } = spot.dataset;
  return { row: row === undefined ? null : Number(row), column: column === undefined ? null : Number(column) };
}

function chips(section, selector, key) {
  return [...section.querySelectorAll(selector)].map((chip, index) => {
    chip.dataset[key] = index;
    chip.append(make("span", "", "share"));
    return chip;
  });
}

function start(section, pair) {
  const sources = chips(section, ".source button", "column");
  const targets = chips(section, ".target button", "row");
  const select = section.querySelector("select");
  const table = section.querySelector(".map");
  const says = section.querySelector(".says");
  const columns = pair.source.length;
  let pinned = null;

  const weight = (row, column) => pair.matrices[select ? Number(select.value) : 0][row * columns + column] / 1000;
  const holds = (links, row, column) => links.some((link) => link[0] === column && link[1] === row);
  const gold = (row, column) =>
    holds(pair.sure, row, column) ? "sure" : holds(pair.possible, row, column) ? "possible" : "";

  function cell(row, column) {
    const share = weight(row, column);
    const element = make("td", columns <= NUMBERED ? share.toFixed(2) : "");
    Object.assign(element.dataset, { row, column });
    element.title = `${pair.target[row]} – ${pair.source[column]}: ${share.toFixed(3)}`;
    paint(element, share);
    const link = gold(row, column);
    if (link) element.append(make("i", "", link));
    const seen = pair.focus && pair.focus[row];
    if (seen) {
      const [centre, first, last] = seen;
      if (column === Math.round(first)) element.append(make("i", "", "first"));
      if (column === Math.round(last)) element.append(make("i", "", "last"));
      if (column === Math.min(columns - 1, Math.max(0, Math.round(centre)))) {
        const mark = make("i", "", "centre");
        mark.style.left = `${100 * Math.min(1, Math.max(0, centre - column + 0.5))}%`;
        element.append(mark);
      }
    }
    return element;
  }

  function heading(word, key, index) {
    const element = make("th");
    element.append(make("bdi", word));
    element.dataset[key] = index;
    element.scope = key === "row" ? "row" : "col";
    element.title = word;
    return element;
  }

  function draw() {
    const head = make("tr");
    head.append(make("th"), ...pair.source.map((word, column) => heading(word, "column", column)));
    const rows = pair.target.map((word, row) => {
      const line = make("tr");
      line.append(heading(word, "row", row), ...pair.source.map((_, column) => cell(row, column)));
      return line;
    });
    const [top, body] = [make("thead"), make("tbody")];
    top.append(head);
    body.append(...rows);
    table.classList.toggle("many", columns > NUMBERED);
    table.replaceChildren(top, body);
  }

  function light(chip, chosen, share, link) {
    chip.classList.toggle("chosen", chosen);
    chip.classList.toggle("sure", link === "sure");
    chip.classList.toggle("possible", link === "possible");
    chip.querySelector(".share").textContent = share === null ? "" : share.toFixed(2);
    paint(chip, share === null ? 0 : share);
  }

  function say(spot) {
    says.replaceChildren();
    if (!spot) return;
    const looks = spot.row !== null;
    const [word, others] = looks ? [pair.target[spot.row], pair.source] : [pair.source[spot.column], pair.target];
    const shares = others.map((other, index) => [looks ? weight(spot.row, index) : weight(index, spot.column), other]);
    shares.sort((left, right) => right[0] - left[0]);
    says.append(make("bdi", word), looks ? " looked at " : " was looked at by ");
    shares.slice(0, NAMED).forEach(([share, other], rank) => {
      says.append(rank ? ", " : "", make("bdi", other), ` ${share.toFixed(2)}`);
    });
  }

  function show(spot) {
    const row = spot ? spot.row : null;
    const column = spot ? spot.column : null;
    sources.forEach((chip, index) => {
      const asked = row !== null;
      light(chip, index === column, asked ? weight(row, index) : null, asked ? gold(row, index) : "");
    });
    targets.forEach((chip, index) => {
      const asked = row === null && column !== null;
      light(chip, index === row, asked ? weight(index, column) : null, asked ? gold(index, column) : "");
    });
    table.querySelectorAll("[data-row], [data-column]").forEach((element) => {
      const here = place(element);
      const inRow = row !== null && here.row === row;
      const inColumn = column !== null && here.column === column;
      element.classList.toggle("lit", inRow || inColumn);
    });
    say(spot);
  }

  const follow = (event) => show(place(event.target) || pinned);
  section.addEventListener("mouseover", follow);
  section.addEventListener("focusin", follow);
  section.addEventListener("mouseleave", () => show(pinned));
  section.addEventListener("focusout", () => show(pinned));
  section.addEventListener("click", (event) => {
    const spot = place(event.target);
    if (!spot) return;
    const again = pinned && pinned.row === spot.row && pinned.column === spot.column;
    pinned = again ? null : spot;
    show(pinned);
  });
  section.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    show(null);
  });
  if (select) {
    select.addEventListener("change", () => {
      draw();
      show(pinned);
    });
  }
  draw();
}

const pairs = JSON.parse(document.getElementById("pairs").textContent);
[...document.querySelectorAll(".pair")].forEach((section, index) => start(section, pairs[index]));
