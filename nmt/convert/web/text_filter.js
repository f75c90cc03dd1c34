"use strict";
// What must not be translated, as placeholders: nmt/data/text_filter.py, whose patterns come with the page.
// rules: those of nmt/convert/html_page.py

class TextFilter {
  constructor(rules, tags) {
    Object.assign(this, rules, { tags: new Set(tags) });
    this.spans = new RegExp(rules.pattern, "gu");
    this.tag = new RegExp(rules.tag, "uy");
    this.shapes = Object.fromEntries(Object.entries(rules.words).map(([name, shape]) => [name, new RegExp(shape, "u")]));
  }

  // A source as it is encoded: {text, spans, capitals}.
  protect(text) {
    const found = [...text.matchAll(this.spans)].filter(([span]) => !this.tags.has(span));
    const [numbers, others] = [[...this.numbers], [...this.others]];
    const marks = new Set([...numbers, ...others]);
    const spans = {};
    let keepsCase = false; // a span in letters that has no placeholder would not come back as it was
    let [joined, outside, end] = ["", "", 0];
    for (const match of found) {
      const mark = (match.groups.number === undefined ? others : numbers).shift();
      outside += text.slice(end, match.index);
      joined += text.slice(end, match.index) + (mark ?? (marks.has(match[0]) ? " " : match[0]));
      if (mark !== undefined) spans[mark] = match[0];
      else if (match[0].toLowerCase() !== match[0].toUpperCase()) keepsCase = true;
      end = match.index + match[0].length;
    }
    joined += text.slice(end);
    const start = this.sentenceStart(text);
    outside = (outside + text.slice(end)).slice(start);
    const letters = outside.match(/\p{L}/gu) || [];
    const capitals = !keepsCase && letters.length >= 4 && letters.every(isCapital) && letters.some(isUpper);
    if (capitals) joined = joined.slice(0, start) + inSmallLetters(joined.slice(start));
    return { text: joined, spans, capitals };
  }

  // Where the sentence behind the tags begins.
  sentenceStart(text) {
    for (let start = 0; ; ) {
      this.tag.lastIndex = start;
      const match = this.tag.exec(text);
      if (!match || !this.tags.has(match[0])) return start;
      start = text.length - text.slice(start + match[0].length).trimStart().length;
    }
  }

  // Whether a text has a word of any language: has_words of nmt/data/text_filter.py, and the functions behind it.
  hasWords(text) {
    const tokens = text.replace(/[\ue000-\uf8ff]/gu, " ").split(/\s+/u).filter(Boolean).map((token) => this.bare(token));
    if (tokens.length === 1 && /^[A-Z]{3}$/.test(tokens[0])) return false;
    const isDate = this.shapes.doubleLetter.test(text) && this.shapes.date.test(text);
    if (isDate || this.shapes.fonts.test(text)) return false;
    const words = tokens.filter((token) => this.isWord(token)).length;
    if (/[^\0-\x7f]|[A-Z.!?]/u.test(text)) return words > 0;
    return words > tokens.filter((token) => this.isCode(token)).length;
  }

  bare(token) {
    if (this.shapes.whole.test(token)) return token;
    const characters = [...token.replace(this.shapes.plural, "")];
    let [start, end] = [0, characters.length];
    while (start < end && this.edges.includes(characters[start])) start += 1;
    while (start < end && this.edges.includes(characters[end - 1])) end -= 1;
    return characters.slice(start, end).join("");
  }

  isWord(token) {
    if (this.shapes.noSpaces.test(token)) return true;
    const word = withoutShortcut(token);
    return !this.isCode(word) && this.parts(word).some(isWordPart);
  }

  isCode(token) {
    if (!/\p{L}/u.test(token)) return false;
    const isPath = token.includes("/") && this.shapes.path.test(token);
    if (isPath || this.shapes.code.test(token) || this.shapes.identifier.test(token)) return true;
    const parts = this.parts(token);
    const hasWord = parts.some((part) => part.length > 2 && /^\p{L}+$/u.test(part) && !isCapitals(part));
    return !hasWord && parts.some((part) => this.shapes.mixed.test(part));
  }

  parts(token) {
    return token.match(new RegExp(this.shapes.parts, "gu")) ?? [];
  }
}

// As Python's isupper: a script without capitals has none.
function isCapitals(part) {
  return part === part.toUpperCase() && part !== part.toLowerCase();
}

function withoutShortcut(token) {
  for (const sign of "&_~") {
    const word = token.replace(sign, "");
    const isTitle = /^\p{Lu}\P{Lu}*$/u.test(word);
    if (/^\p{L}+$/u.test(word) && (token.startsWith(sign) || isTitle)) return word;
  }
  return token;
}

function isWordPart(part) {
  if (!/^[\0-\x7f]*$/.test(part)) return /\p{L}/u.test(part);
  return /^[A-Za-z]+$/.test(part) && (part.length === 1 || /[aeiouylrw]/i.test(part));
}

function isUpper(letter) {
  return /^\p{Uppercase}$/u.test(letter);
}

// Whether a letter is a capital, or has no capital of its own, as ß and ideographs.
function isCapital(letter) {
  return letter === letter.toUpperCase() || [...letter.toUpperCase()].length > 1;
}

// In languages that have ı, such as Turkish, İ is the capital of i.
function toCapitals(text) {
  return (text.includes("ı") ? text.replaceAll("i", "İ") : text).toUpperCase();
}

// In languages that have İ, such as Turkish, I is the capital of ı.
function inSmallLetters(text) {
  const dotted = text.includes("İ") ? text.replaceAll("I", "ı").replaceAll("İ", "i") : text;
  return dotted.toLowerCase();
}

// What a space follows; see nmt/data/text_filter.py.
const ENDS_WORD = /[A-Za-z\u00c0-\u024f\u0370-\u052f0-9.,;:!?)…]/;

const NUMBER = /[\uf100-\uf107]/; // its placeholder

// A decoded text, or one piece of it behind the character `before`, as the reader is to see it. A placeholder that stood
// apart in the source is kept apart from a word, a mark or another one before it, and a number from digits behind it.
function restore(text, { text: source, spans, capitals }, before = "") {
  const joins = (character) => character in spans || ENDS_WORD.test(character);
  const parts = [];
  for (const character of capitals ? toCapitals(text) : text) {
    const stoodApart = character in spans && !joins(source[source.indexOf(character) - 1] ?? "");
    const isApart = stoodApart || (NUMBER.test(before) && /\p{Nd}/u.test(character));
    if (isApart && joins(before)) parts.push(" ");
    parts.push(spans[character] ?? character);
    before = character;
  }
  return parts.join("");
}
