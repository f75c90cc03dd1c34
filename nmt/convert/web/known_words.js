"use strict";
// The words that a tokenizer was trained on, as nmt/data/known_words.py: a Bloom filter with BLAKE2b.
const BITS_SET = 8;
const SHORTEST_PART = 3; // letters of a part of a compound
const CAPITAL = "^"; // before an entry that has a capital letter, or is a mark
const LETTER_SEEN = "*"; // before each letter; alone where letters are known at all
const [INFLECTED, LINKED, LAST] = ["$", "+", "/"]; // before endings, links and last parts of compounds
const [FIRST, BEGINNINGS] = ["(", [2, 3, 4]]; // before what words begin with; its letters
const LONG_NAME = 5; // letters of a word in small letters that may be a name
const LETTERS = Array.from("abcdefghijklmnopqrstuvwxyzàáâäåæçèéêëìíîïñòóôöøùúûüýßœ"); // that a typo may replace or leave out
const LONG_PART = 5; // letters of a last part that is one even if no compound was seen to end with it
const [LINK, ENDING] = [2, 3]; // most letters between the parts of a compound, and at the end of an inflected word
const LETTER = "[\\p{L}\\p{Nl}\\p{No}]"; // Python's [^\W\d_]
const WORD = new RegExp(`${LETTER}+`, "gu");
const BESIDE = "[\\s\\uf100-\\uf2ff]*"; // a word: placeholders
const WORD_WITH_MARK = new RegExp(`^(${BESIDE})(${LETTER}+)\\s?([.?!]+)(${BESIDE})$`, "u");
const ONE_WORD = new RegExp(`^(${BESIDE})(${LETTER}+)(${BESIDE})$`, "u");
const NAME = new RegExp(`(?:[A-Z]['’])?${LETTER}+(?:-${LETTER}+)*`, "gu");

class KnownWords {
  constructor(bits) {
    this.bits = bits; // Uint8Array
    this.found = new Map(); // hashing is slow
    this.misspelled = new Map();
  }

  has(word) {
    const lower = word.toLowerCase();
    if (!this.found.has(lower)) this.found.set(lower, this.isSet(lower));
    return this.found.get(lower);
  }

  isSet(lower) {
    return places(lower, 8 * this.bits.length).every((place) => (this.bits[place >> 3] >> (place & 7)) & 1);
  }

  hasMark(mark) {
    return this.has(CAPITAL + mark);
  }

  // Whether a word was seen, is one with another ending or beginning, or two with a link between.
  explains(word) {
    const letters = Array.from(word.toLowerCase());
    const sizes = BEGINNINGS.filter((size) => letters.length > size + SHORTEST_PART);
    const begins = (size) => this.has(FIRST + letters.slice(0, size).join("")) && this.stem(letters.slice(size));
    if (this.stem(letters) || sizes.some(begins)) return true;
    for (let start = SHORTEST_PART; start <= letters.length - SHORTEST_PART; start++) {
      const last = this.stem(letters.slice(start));
      if (!last || (last.length < LONG_PART && !this.isPart(LAST, last))) continue;
      for (let end = start; end >= Math.max(SHORTEST_PART, start - LINK); end--) {
        if (this.has(letters.slice(0, end).join("")) && this.isPart(LINKED, letters.slice(end, start))) return true;
      }
    }
    return false;
  }

  // Whether a word in small letters is a seen one with a letter more, less or replaced, or two exchanged.
  isMisspelled(word) {
    if (!this.misspelled.has(word)) this.misspelled.set(word, this.isNearSeen(word));
    return this.misspelled.get(word);
  }

  isNearSeen(word) {
    const all = Array.from(word);
    const letters = LETTERS.filter((letter) => this.has(LETTER_SEEN + letter));
    for (let place = 0; place <= all.length; place++) {
      const [before, after] = [all.slice(0, place).join(""), all.slice(place)];
      const [rest, later] = [after.slice(1).join(""), after.slice(2).join("")];
      const changed = after.length > 0 ? [before + rest, before + (after[1] ?? "") + after[0] + later] : [];
      for (const letter of letters) changed.push(before + letter + after.join(""), before + letter + rest);
      if (changed.some((each) => each !== word && this.isSet(each.toLowerCase()))) return true;
    }
    return false;
  }

  // The letters of a word that was seen, or those that were seen without its ending; null for another word.
  stem(letters) {
    if (this.has(letters.join(""))) return letters;
    for (let end = Math.max(SHORTEST_PART + 1, letters.length - ENDING); end < letters.length; end++) {
      const stem = letters.slice(0, end);
      if (this.has(stem.join("")) && this.isPart(INFLECTED, letters.slice(end))) return stem;
    }
    return null;
  }

  // Whether words are formed with these letters; true where this is not known, and for no letters.
  isPart(sign, letters) {
    return letters.length === 0 || !this.has(sign) || this.has(sign + letters.join(""));
  }

  isName(word) {
    const letters = Array.from(word);
    if (letters.length === 1 && word < "\u0080") return false;
    if (letters.length > 1 && isUpper(letters[0]) && !this.explains(word)) return true;
    if (this.has(word)) return false;
    return this.has(LETTER_SEEN) && 2 * letters.filter((letter) => !this.has(LETTER_SEEN + letter)).length >= letters.length;
  }

  // [start, end] of words that can only be copied; of those with hyphens the whole if its last part can, else the parts.
  names(text) {
    const found = [];
    for (const match of text.matchAll(NAME)) {
      const parts = [...match[0].matchAll(WORD)].map((part) => [match.index + part.index, part[0]]);
      if (parts.length > 1 && Array.from(parts[0][1]).length === 1) parts.shift();
      if (parts.length > 1 && Array.from(parts[parts.length - 1][1]).length === 1) parts.pop();
      const unknown = parts.filter(([, word]) => this.isName(word));
      const isWhole = unknown.includes(parts[parts.length - 1]) && isUpper(initialOf(match[0]));
      if (unknown.length === parts.length || isWhole) found.push([match.index, match.index + match[0].length]);
      else found.push(...unknown.map(([start, word]) => [start, start + word.length]));
    }
    return found;
  }

  // A text with the capital letters of training from `start` on, where its own say nothing.
  cased(text, start, names) {
    const single = ONE_WORD.exec(text.slice(start));
    if (single) {
      const [, before, word, after] = single;
      const lower = word.toLowerCase();
      const shouted = initialOf(word) !== word && word === word.toUpperCase() && !this.has(CAPITAL + lower);
      const saysNothing = isSmall(word) || ((isSmall(word.slice(initialOf(word).length)) || shouted) && this.has(lower));
      return saysNothing ? text.slice(0, start) + before + this.withCase(word, names) + after : text;
    }
    return /\p{Uppercase}/u.test(text.slice(start)) ? text : this.truecased(text, start, names);
  }

  // A text in small letters with the capital letters that its words mostly have, from `start` on.
  truecased(text, start, names) {
    const first = text.slice(start).search(new RegExp(LETTER, "u"));
    if (first < 0) return text;
    const cased = text.slice(start + first).replace(WORD, (word) => this.withCase(word, names, true));
    const initial = initialOf(cased);
    return text.slice(0, start + first) + initial.toUpperCase() + cased.slice(initial.length);
  }

  withCase(original, names, longNames = false) {
    let word = original.toLowerCase();
    const sharp = word.replaceAll("ss", "ß"); // the capital letters of ß are SS
    if (!this.has(word) && sharp !== word && this.has(sharp)) word = sharp;
    if (this.has(word)) return this.has(CAPITAL + word) ? capitalized(word) : word;
    const letters = Array.from(word);
    for (let start = SHORTEST_PART; start <= letters.length - SHORTEST_PART; start++) {
      if (this.has(CAPITAL + letters.slice(start).join(""))) return capitalized(word);
    }
    const isLong = longNames && letters.length >= LONG_NAME && word !== word.toUpperCase();
    if (!(names || isLong) || this.explains(word)) return word;
    return names || !this.isMisspelled(word) ? capitalized(word) : word;
  }
}

function isUpper(character) {
  return /^\p{Uppercase}$/u.test(character);
}

function isSmall(word) {
  return word === word.toLowerCase() && word !== word.toUpperCase();
}

function initialOf(word) {
  return String.fromCodePoint(word.codePointAt(0));
}

function capitalized(word) {
  const initial = initialOf(word);
  return initial.toUpperCase() + word.slice(initial.length);
}

// The bits of a word among `size`.
function places(word, size) {
  const [first, second] = blake2b128(utf8.encode(word));
  const step = second | 1n;
  return Array.from({ length: BITS_SET }, (_, number) => Number((first + BigInt(number) * step) % BigInt(size)));
}

// BLAKE2b (RFC 7693) with 16 bytes of digest and no key: two words of 64 bits.
const WORD_MASK = (1n << 64n) - 1n;
const INITIAL = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((order) => Array.from(order, (digit) => parseInt(digit, 16)));
const MIXED = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];

function blake2b128(bytes) {
  const hash = [...INITIAL];
  hash[0] ^= 0x01010000n ^ 16n;
  const blocks = Math.max(1, Math.ceil(bytes.length / 128));
  for (let block = 0; block < blocks; block++) {
    const padded = new Uint8Array(128);
    padded.set(bytes.subarray(128 * block, 128 * (block + 1)));
    const view = new DataView(padded.buffer);
    const message = Array.from({ length: 16 }, (_, index) => view.getBigUint64(8 * index, true));
    const isLast = block === blocks - 1;
    compress(hash, message, BigInt(isLast ? bytes.length : 128 * (block + 1)), isLast);
  }
  return hash.slice(0, 2);
}

function compress(hash, message, count, isLast) {
  const mixed = [...hash, ...INITIAL];
  mixed[12] ^= count;
  if (isLast) mixed[14] ^= WORD_MASK;
  const rotated = (value, bits) => ((value >> bits) | (value << (64n - bits))) & WORD_MASK;
  for (let round = 0; round < 12; round++) {
    const order = ORDERS[round % 10];
    MIXED.forEach(([a, b, c, d], index) => {
      for (const [from, first, second] of [[2 * index, 32n, 24n], [2 * index + 1, 16n, 63n]]) {
        mixed[a] = (mixed[a] + mixed[b] + message[order[from]]) & WORD_MASK;
        mixed[d] = rotated(mixed[d] ^ mixed[a], first);
        mixed[c] = (mixed[c] + mixed[d]) & WORD_MASK;
        mixed[b] = rotated(mixed[b] ^ mixed[c], second);
      }
    });
  }
  for (let index = 0; index < 8; index++) hash[index] ^= mixed[index] ^ mixed[index + 8];
}
