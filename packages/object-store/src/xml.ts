/** An element of a document. Prefixes of namespaces, and attributes, are left out. */
export interface XmlElement {
  readonly name: string;
  /** Text of the element itself, without the text of its children. */
  readonly text: string;
  readonly children: readonly XmlElement[];
}

interface OpenElement extends XmlElement {
  text: string;
  readonly children: XmlElement[];
}

/** A list of 1,000 objects has 10 elements for each at most. */
const maxElements = 32_000;
const maxDepth = 16;

const declaration = /\s*<\?xml[^<>?]*\?>\s*/y;
const comment = /<!--(?:[^-]|-[^-])*-->/y;
const openTag =
  /<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)(?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*\s*(\/?)>/y;
const closeTag = /<\/(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)\s*>/y;
const plainText = /[^<]+/y;
const reference = /&(?:#(\d{1,7})|#x([\dA-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&/g;

const named: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
};

/**
 * Reads the XML that S3 and STS answer with: elements, text, and the references of characters.
 * Undefined for anything else: a type of the document and its entities, sections, instructions,
 * text beside the root, or more elements than an answer has. Takes time in proportion to the text.
 */
export function readXml(document: string): XmlElement | undefined {
  const root: OpenElement = { name: '', text: '', children: [] };
  const open: OpenElement[] = [root];
  let position = document.startsWith('\uFEFF') ? 1 : 0;
  let elements = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = position;
    const found = pattern.exec(document);
    if (found !== null) position = pattern.lastIndex;
    return found;
  };
  take(declaration);
  while (position < document.length) {
    const parent = open.at(-1) ?? root;
    const text = take(plainText);
    if (text !== null) {
      const decoded = decode(text[0]);
      if (decoded === undefined) return undefined;
      parent.text += decoded;
      continue;
    }
    const closed = take(closeTag);
    if (closed !== null) {
      if (open.length === 1 || closed[1] !== parent.name) return undefined;
      open.pop();
      continue;
    }
    const opened = take(openTag);
    if (opened !== null) {
      const element: OpenElement = { name: opened[1] ?? '', text: '', children: [] };
      elements += 1;
      if (elements > maxElements || open.length > maxDepth) return undefined;
      parent.children.push(element);
      if (opened[2] === '') open.push(element);
      continue;
    }
    if (take(comment) === null) return undefined;
  }
  const isWhole = open.length === 1 && root.children.length === 1 && root.text.trim() === '';
  return isWhole ? root.children[0] : undefined;
}

/** Returns the text without references; undefined for a reference that XML itself does not have. */
function decode(text: string): string | undefined {
  let decoded = '';
  let end = 0;
  for (const match of text.matchAll(reference)) {
    const character = characterOf(match);
    if (character === undefined) return undefined;
    decoded += `${text.slice(end, match.index)}${character}`;
    end = match.index + match[0].length;
  }
  return end === 0 ? text : `${decoded}${text.slice(end)}`;
}

function characterOf([, decimal, hexadecimal = '', name]: RegExpExecArray): string | undefined {
  if (name !== undefined) return named[name];
  const code = decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number(decimal);
  // The bare `&` is none of both, and NaN.
  const isCharacter = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return isCharacter ? String.fromCodePoint(code) : undefined;
}

export const childrenOf = (element: XmlElement, name: string): readonly XmlElement[] =>
  element.children.filter((child) => child.name === name);

/** Text of the first element at the end of the path below an element. */
export const textAt = (element: XmlElement, ...path: readonly string[]): string | undefined =>
  path.reduce<XmlElement | undefined>(
    (parent, name) => parent?.children.find((child) => child.name === name),
    element,
  )?.text;
