"use strict";
// From pieces to words, as nmt/evaluate/words.py: weights are between pieces, the page shows words.
const END = "</s>";
const BLANKS = "[\\t-\\r\\x1c-\\x20\\x85\\p{Z}]+"; // what Python takes for blanks
const FILLED = new RegExp(BLANKS.replace("[", "[^"), "gu");
const EDGES = new RegExp(`^${BLANKS}|${BLANKS}$`, "gu");
const SPACELESS =
  /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\u{20000}-\u{2ffff}]/u;

// The text that pieces spell, and [start, end] of each piece in it; the bytes of one character each get its span.
function pieceSpans(pieces) {
  const spans = [];
  let text = "";
  for (let index = 0; index < pieces.length; ) {
    const bytes = [];
    for (let match; index < pieces.length && (match = /^<0x([0-9A-F]{2})>$/.exec(pieces[index])); index++) {
      bytes.push(parseInt(match[1], 16));
    }
    for (const [character, width] of decodeUtf8(bytes)) {
      for (let byte = 0; byte < width; byte++) spans.push([text.length, text.length + character.length]);
      text += character;
    }
    if (bytes.length) continue;
    let surface = pieces[index] === "<unk>" ? "\u2047" : pieces[index].replaceAll(SPACE, " ");
    if (!text) surface = surface.replace(/^ +/, "");
    spans.push([text.length, text.length + surface.length]);
    text += surface;
    index++;
  }
  return [text, spans];
}

// Each punctuation character at a word's edge is a word of its own.
function wordSpans(text) {
  const spans = [];
  for (const match of text.matchAll(FILLED)) {
    let place = match.index;
    const characters = Array.from(match[0], (character) => {
      const span = [place, place + character.length];
      place = span[1];
      return { span, isMark: /^[\p{P}\p{S}]$/u.test(character) && !"\u2047\ufffd".includes(character) };
    });
    let [first, last] = [0, characters.length];
    while (first < last && characters[first].isMark) first++;
    while (last > first && characters[last - 1].isMark) last--;
    spans.push(...characters.slice(0, first).map(({ span }) => span));
    if (first < last) spans.push([characters[first].span[0], characters[last - 1].span[1]]);
    spans.push(...characters.slice(last).map(({ span }) => span));
  }
  return spans;
}

// {words, fractions}: fractions[piece][word] of each piece's characters in each word; every row sums to 1.
function splitIntoWords(pieces) {
  const [text, ofPieces] = pieceSpans(pieces);
  const spans = [];
  for (const [start, end] of wordSpans(text)) {
    if (!SPACELESS.test(text.slice(start, end))) spans.push([start, end]);
    else {
      const parts = ofPieces.map(([first, last]) => [Math.max(start, first), Math.min(end, last)]);
      const unique = new Map(parts.filter(([first, last]) => first < last).map((part) => [part.join(), part]));
      spans.push(...[...unique.values()].sort((left, right) => left[0] - right[0]));
    }
  }
  const fractions = ofPieces.map(([first, last]) => {
    const row = spans.map(([start, end]) => Math.max(0, Math.min(end, last) - Math.max(start, first)));
    const total = row.reduce((sum, part) => sum + part, 0);
    if (total) return row.map((part) => part / total);
    const next = spans.filter(([, end]) => end <= last).length;
    if (row.length) row[Math.min(next, row.length - 1)] = 1;
    return row;
  });
  return { words: spans.map(([start, end]) => text.slice(start, end)), fractions };
}

// Weights [target pieces][source pieces + 1] between words: sums over a source word's pieces, means over a target's.
function mergeWeights(weights, source, target) {
  return target.words.map((_, word) => {
    const row = new Array(source.words.length + 1).fill(0);
    const total = target.fractions.reduce((sum, fractions) => sum + fractions[word], 0);
    target.fractions.forEach((fractions, piece) => {
      const share = fractions[word] / Math.max(total, 1e-12);
      if (!share) return;
      source.fractions.forEach((parts, column) => {
        parts.forEach((part, index) => (row[index] += share * part * weights[piece][column]));
      });
      row[row.length - 1] += share * weights[piece][source.fractions.length];
    });
    return row;
  });
}

// The window |s − p_t| ≤ reach of each target word as [p_t, first word, last word], null for a word without pieces.
function windowSpans(centres, reach, source, target) {
  const count = source.words.length;
  const end = source.fractions.length;
  const columns = [...source.fractions.map((parts) => parts.reduce((sum, part, index) => sum + part * index, 0)), count];
  const wordsOf = (piece) => {
    if (piece === end) return [count];
    return source.fractions[piece].flatMap((part, index) => (part ? [index] : []));
  };
  const clipped = (value) => Math.min(end, Math.max(0, value));
  const between = (place) => {
    const [left, right] = [Math.floor(clipped(place)), Math.ceil(clipped(place))];
    return columns[left] + (clipped(place) - left) * (columns[right] - columns[left]);
  };
  return target.words.map((_, word) => {
    const pieces = centres.map((centre, piece) => [centre, target.fractions[piece]?.[word]]).filter(([, part]) => part);
    if (!pieces.length) return null;
    const first = Math.min(...pieces.map(([centre]) => clipped(Math.ceil(centre - reach))));
    const last = Math.max(...pieces.map(([centre]) => clipped(Math.floor(centre + reach))));
    const total = pieces.reduce((sum, [, part]) => sum + part, 0);
    const centre = pieces.reduce((sum, [place, part]) => sum + part * between(place), 0) / total;
    return [centre, Math.min(count, ...wordsOf(first)), Math.max(0, ...wordsOf(last))];
  });
}
