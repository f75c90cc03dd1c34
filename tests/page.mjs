// Runs nmt/view/page.js on a small stand-in for a browser's document. Reads {tree, script, steps} as JSON from
// standard input; writes what is displayed at the start and after each step.
import { readFileSync } from "node:fs";

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, childNodes: [], parent: null, listeners: {} });
    this.classList = {
      has: (name) => this.className.split(" ").includes(name),
      toggle: (name, on) => {
        const names = this.className.split(" ").filter((each) => each && each !== name);
        this.className = (on ? [...names, name] : names).join(" ");
      },
    };
    this.className = "";
    this.style = { setProperty: (name, value) => (this.style[name] = value) };
    this.dataset = {};
    if (tag === "select") this.value = "0";
  }
  append(...children) {
    for (const child of children) {
      if (child instanceof Element) child.parent = this;
      this.childNodes.push(child instanceof Element ? child : String(child));
    }
  }
  replaceChildren(...children) {
    this.childNodes = [];
    this.append(...children);
  }
  get textContent() {
    return this.childNodes.map((child) => (child instanceof Element ? child.textContent : child)).join("");
  }
  set textContent(text) {
    this.replaceChildren(...(text === "" ? [] : [text]));
  }
  get descendants() {
    return this.childNodes.filter((child) => child instanceof Element).flatMap((child) => [child, ...child.descendants]);
  }
  is(simple) {
    if (simple.startsWith(".")) return this.classList.has(simple.slice(1));
    if (simple.startsWith("[data-")) return simple.slice(6, -1) in this.dataset;
    if (!/^[a-z]+$/.test(simple)) throw new Error(`no selector of the stand-in: ${simple}`);
    return this.tag === simple;
  }
  matches(selector) {
    return selector.split(", ").some((each) => {
      const parts = each.split(" ");
      if (!this.is(parts.pop())) return false;
      let above = this.parent;
      while (parts.length && above) {
        if (above.is(parts[parts.length - 1])) parts.pop();
        above = above.parent;
      }
      return parts.length === 0;
    });
  }
  querySelectorAll(selector) {
    return this.descendants.filter((element) => element.matches(selector));
  }
  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }
  closest(selector) {
    return this.matches(selector) ? this : this.parent && this.parent.closest(selector);
  }
  addEventListener(type, listener) {
    (this.listeners[type] ??= []).push(listener);
  }
  dispatch(type, key) {
    for (let element = this; element; element = type === "mouseleave" ? null : element.parent) {
      for (const listener of element.listeners[type] ?? []) listener({ target: this, key });
    }
  }
}

function build(node) {
  const element = new Element(node.tag);
  element.attributes = node.attributes;
  element.className = node.attributes.class ?? "";
  element.append(...node.children.map((child) => (typeof child === "string" ? child : build(child))));
  return element;
}

const { tree, script, steps } = JSON.parse(readFileSync(0, "utf-8"));
const root = build(tree);
const document = {
  createElement: (tag) => new Element(tag),
  getElementById: (id) => root.descendants.find((element) => element.attributes.id === id),
  querySelectorAll: (selector) => root.querySelectorAll(selector),
};
new Function("document", script)(document);

const number = (value) => (value === undefined ? null : Number(value));

function displayed() {
  const button = (element) => [
    element.querySelector(".weight").textContent, element.style["--weight"] ?? 0, element.className,
  ];
  const marks = (cell) =>
    cell.querySelectorAll("i").map((mark) => `${mark.className} ${mark.style.left ?? ""}`.trim()).join(" ");
  const cells = root.querySelectorAll(".map td");
  return {
    source: root.querySelectorAll(".source button").map(button),
    target: root.querySelectorAll(".target button").map(button),
    summary: root.querySelector(".summary").textContent,
    head: root.querySelectorAll(".map thead th").map((element) => element.textContent),
    rows: root.querySelectorAll(".map tbody th").map((element) => element.textContent),
    cells: cells.map((cell) => cell.textContent),
    titles: cells.map((cell) => cell.title),
    inks: cells.map((cell) => cell.style["--weight"]),
    marks: cells.map(marks),
    lit: root.querySelectorAll(".map .lit").map(({ dataset }) => [number(dataset.row), number(dataset.column)]),
  };
}

const states = [displayed()];
for (const [type, selector, index, value] of steps) {
  const element = root.querySelectorAll(selector)[index];
  if (type === "change") element.value = value;
  element.dispatch(type, value);
  states.push(displayed());
}
console.log(JSON.stringify(states));
