"use strict";
// What must not be translated, as placeholders: nmt/data/protection.py; the patterns of span_patterns.py come with the page.
// rules: those of nmt/export/javascript.py

class Protection {
  constructor(rules, tags, known) {
    Object.assign(this, rules, { tags: new Set(tags), known });
    this.spans = new RegExp(rules.pattern, "gu");
    this.between = new RegExp(`^(?:${rules.between})$`, "u");
    this.tag = new RegExp(rules.tag, "uy");
    [this.joinsNames, this.beforeName] = [new RegExp(`^(?:${rules.joinsNames})$`, "u"), new RegExp(rules.beforeName, "gu")];
    [this.afterName, this.code] = [new RegExp(rules.afterName, "uy"), new RegExp(`^(?:${rules.code})$`, "u")];
  }

  // A source as it is encoded: {text, spans, capitals}.
  protect(text) {
    const [spans, start] = [this.findSpans(text), this.sentenceStart(text)];
    const capitals = inCapitals(text, spans, start);
    const replaced = this.replaced(text, spans, capitals);
    return this.known ? this.withNames(replaced, start) : replaced;
  }

  findSpans(text) {
    const spans = [];
    let before = null; // the kind of the last span
    for (const match of text.matchAll(this.spans)) {
      if (this.tags.has(match[0])) continue;
      const name = Object.keys(match.groups).find((key) => match.groups[key] !== undefined);
      let [start, end] = [match.index, match.index + match[0].length];
      if (name === "url" || name === "domain") {
        while (end > start + 1 && this.trailing.includes(text[end - 1])) {
          if (text[end - 1] === ")" && text.slice(start, end).includes("(")) break;
          end--;
        }
      }
      const last = spans[spans.length - 1];
      const joins = name === before && this.joined.includes(name) && this.between.test(text.slice(last.end, start));
      const touches = this.touching.includes(name) && this.touching.includes(before) && last.end === start;
      if (joins || touches) start = spans.pop().start;
      before = name;
      spans.push({ start, end, text: text.slice(start, end) });
    }
    return spans;
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

  replaced(text, spans, capitals) {
    const [numbers, others] = [[...this.numbers], [...this.others]];
    const filled = {};
    let [joined, end] = ["", 0];
    for (const span of spans) {
      const mark = (/^\p{Nd}|^[\u00b2\u00b3\u00b9]/u.test(span.text) ? numbers : others).shift();
      if (mark === undefined) continue;
      joined += text.slice(end, span.start) + mark;
      filled[mark] = span.text;
      end = span.end;
    }
    joined += text.slice(end);
    return { text: capitals ? joined.toLowerCase() : joined, spans: filled, capitals };
  }

  // With a placeholder for the mark behind a single word.
  withMark(replaced, start) {
    const { text, spans } = replaced;
    const single = WORD_WITH_MARK.exec(text.slice(start));
    const free = [...this.others].find((mark) => !(mark in spans));
    if (start > 0 || !single || free === undefined || !this.known.explains(this.known.withCase(single[2]))) return replaced;
    const [, before, word, marks, after] = single;
    if (![...marks].every((mark) => this.known.hasMark(mark))) return replaced;
    return { ...replaced, text: text.slice(0, start) + before + word + free + after, spans: { ...spans, [free]: marks } };
  }

  // Names that stand together, as one; with initials, Bad or Klein, a legal form or a code beside them.
  joinedNames(text, names, spans) {
    const { joinsNames, afterName, beforeName } = this;
    const joined = [];
    for (let [start, end] of names) {
      const before = joined[joined.length - 1];
      if (before && start < before[1]) continue; // a legal form that was added
      if (before && joinsNames.test(text.slice(before[1], start))) {
        [start] = joined.pop();
      } else {
        beforeName.lastIndex = Math.max(before ? before[1] : 0, start - this.longestBefore);
        const found = beforeName.exec(text.slice(0, start));
        if (found) start = found.index;
      }
      afterName.lastIndex = end;
      end += afterName.exec(text)[0].length;
      const [name, mark] = [text.slice(start, end), text.slice(end + 1, end + 2)];
      const last = name.split(" ").pop();
      const isNumber = mark && [...this.numbers].includes(mark) && last === last.toUpperCase() && last !== last.toLowerCase();
      if (text[end] === " " && (isNumber || this.code.test(spans[mark] ?? ""))) end += 2;
      joined.push([start, end]);
    }
    return joined;
  }

  withNames(original, start) {
    const replaced = this.withMark(original, start);
    const { capitals } = replaced;
    const text = this.known.cased(replaced.text, start, capitals);
    const written = replaced.text.slice(start);
    const isSmall = written === written.toLowerCase();
    const asWritten = (letter) => (capitals ? letter.toUpperCase() : isSmall ? letter.toLowerCase() : letter);
    const spans = { ...replaced.spans };
    const free = [...this.others].filter((mark) => !(mark in spans));
    let [joined, end] = ["", 0];
    for (const [first, last] of this.joinedNames(text, this.known.names(text).filter(([place]) => place >= start), spans)) {
      const mark = free.shift();
      if (mark === undefined) break;
      joined += text.slice(end, first) + mark;
      let name = "";
      for (const character of text.slice(first, last)) {
        name += character in spans ? spans[character] : asWritten(character);
        delete spans[character];
      }
      spans[mark] = name;
      end = last;
    }
    return { text: joined + text.slice(end), spans, capitals };
  }
}

// Whether all letters from `start` on and outside the spans are capitals, and there are at least four of them.
function inCapitals(text, spans, start) {
  let [outside, end] = ["", start];
  for (const span of spans) {
    outside += text.slice(end, span.start);
    end = span.end;
  }
  const letters = (outside + text.slice(end)).match(/\p{L}/gu) || [];
  return letters.length >= 4 && letters.every(isUpper);
}

// What a space follows; see nmt/data/protection.py.
const ENDS_WORD = /[A-Za-z\u00c0-\u024f\u0370-\u052f0-9.,;:!?)…]/;

// A decoded text, or one piece of it behind the character `before`, as the reader is to see it. A placeholder that stood
// apart in the source is kept apart from a word or a mark before it; a single word with a mark gets a capital letter.
function restore(text, { text: source, spans, capitals }, before = "") {
  const parts = [];
  let capital = before === "" && Object.values(spans).some((span) => /^[.?!]+$/.test(span));
  for (const character of capitals ? text.toUpperCase() : text) {
    const isApart = character in spans && /\s/.test(source[source.indexOf(character) - 1] ?? "");
    if (isApart && (ENDS_WORD.test(before) || before in spans)) parts.push(" ");
    parts.push(spans[character] ?? (capital ? character.toUpperCase() : character));
    capital &&= !/[\p{L}\p{N}]/u.test(parts.at(-1));
    before = character;
  }
  return parts.join("");
}
