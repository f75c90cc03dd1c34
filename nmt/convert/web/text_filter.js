"use strict";
// What must not be translated, as placeholders: nmt/data/text_filter.py, whose patterns come with the page.
// rules: those of nmt/convert/html_page.py

class TextFilter {
  constructor(rules, tags) {
    Object.assign(this, rules, { tags: new Set(tags) });
    this.spans = new RegExp(rules.pattern, "gu");
    this.tag = new RegExp(rules.tag, "uy");
  }

  // A source as it is encoded: {text, spans, capitals}.
  protect(text) {
    const found = [...text.matchAll(this.spans)].filter(([span]) => !this.tags.has(span));
    const [numbers, others] = [[...this.numbers], [...this.others]];
    const spans = {};
    let [joined, outside, end] = ["", "", 0];
    for (const match of found) {
      const mark = (match.groups.number === undefined ? others : numbers).shift();
      outside += text.slice(end, match.index);
      joined += text.slice(end, match.index) + (mark ?? match[0]);
      if (mark !== undefined) spans[mark] = match[0];
      end = match.index + match[0].length;
    }
    joined += text.slice(end);
    outside = (outside + text.slice(end)).slice(this.sentenceStart(text));
    const letters = outside.match(/\p{L}/gu) || [];
    const capitals = letters.length >= 4 && letters.every(isUpper);
    return { text: capitals ? joined.toLowerCase() : joined, spans, capitals };
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
}

function isUpper(letter) {
  return /^\p{Uppercase}$/u.test(letter);
}

// What a space follows; see nmt/data/text_filter.py.
const ENDS_WORD = /[A-Za-z\u00c0-\u024f\u0370-\u052f0-9.,;:!?)…]/;

// A decoded text, or one piece of it behind the character `before`, as the reader is to see it. A placeholder that stood
// apart in the source is kept apart from a word or a mark before it.
function restore(text, { text: source, spans, capitals }, before = "") {
  const parts = [];
  for (const character of capitals ? text.toUpperCase() : text) {
    const isApart = character in spans && /\s/.test(source[source.indexOf(character) - 1] ?? "");
    if (isApart && (ENDS_WORD.test(before) || before in spans)) parts.push(" ");
    parts.push(spans[character] ?? character);
    before = character;
  }
  return parts.join("");
}
