import type { Root, RootContent } from 'hast';
import { common, createLowlight } from 'lowlight';
import type { ColouredLines, ColourKind, Piece, ToColour } from '../coloured-lines.ts';

/** Maximum pieces of a text; each piece becomes an element. */
const maxPieces = 30_000;

/** Languages by file extension or file name, if that differs from the name of the language. */
const languages = new Map(
  Object.entries({
    bash: ['bashrc', 'zsh', 'profile'],
    cpp: ['c++', 'cc', 'cxx', 'h', 'hh', 'hpp'],
    typescript: ['cts', 'mts', 'tsx'],
    javascript: ['cjs', 'mjs', 'jsx'],
    json: ['geojson', 'jsonc', 'json5', 'webmanifest'],
    xml: ['htm', 'html', 'svg', 'vue', 'xhtml', 'xsd', 'xsl'],
    ini: ['cfg', 'conf', 'editorconfig', 'gitconfig', 'toml'],
    makefile: ['gnumakefile', 'mk'],
    ruby: ['gemfile', 'gemspec', 'rakefile'],
  }).flatMap(([language, endings]) => endings.map((ending) => [ending, language])),
);

const lowlight = createLowlight(common);

function languageOf(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  const ending = name.slice(name.lastIndexOf('.') + 1);
  const language = languages.get(ending) ?? ending;
  return lowlight.registered(language) ? language : undefined;
}

export function colouredLines(path: string, text: string): ColouredLines | undefined {
  const language = languageOf(path);
  if (language === undefined) return undefined;
  const lines = linesOf(lowlight.highlight(language, text));
  return lines.reduce((sum, { length }) => sum + length, 0) > maxPieces ? undefined : lines;
}

/** Colour kinds by the class names of the library, without their prefix. */
const kinds: ReadonlyMap<string, ColourKind> = new Map(
  Object.entries({
    keyword: [
      ...['keyword', 'built_in', 'type', 'name', 'selector-tag', 'selector-class'],
      ...['selector-id', 'section', 'meta', 'tag'],
    ],
    string: ['string', 'regexp', 'symbol', 'link', 'code', 'char', 'addition'],
    comment: ['comment', 'quote', 'doctag', 'deletion'],
    number: ['number', 'literal', 'bullet'],
    name: ['title', 'attr', 'attribute', 'variable', 'template-variable', 'property'],
  } satisfies Record<ColourKind, readonly string[]>).flatMap(([kind, names]) =>
    names.map((name) => [name, kind as ColourKind] as const),
  ),
);

function kindOf(classes: unknown): ColourKind | undefined {
  if (!Array.isArray(classes)) return undefined;
  for (const name of classes) {
    const kind = kinds.get(String(name).replace(/^hljs-/, ''));
    if (kind !== undefined) return kind;
  }
  return undefined;
}

function linesOf(root: Root): ColouredLines {
  const lines: Piece[][] = [[]];
  const add = (text: string, kind: ColourKind | undefined) => {
    for (const [index, part] of text.split('\n').entries()) {
      if (index > 0) lines.push([]);
      if (part !== '') lines.at(-1)?.push({ text: part, kind });
    }
  };
  const visit = (nodes: readonly RootContent[], outer: ColourKind | undefined) => {
    for (const node of nodes)
      if (node.type === 'text') add(node.value, outer);
      else if (node.type === 'element')
        visit(node.children, kindOf(node.properties['className']) ?? outer);
  };
  visit(root.children, undefined);
  return lines;
}

// The types of `globalThis` are those of a page, not those of a worker.
const worker = globalThis as unknown as {
  onmessage: (event: { readonly data: ToColour }) => void;
  readonly postMessage: (answer: unknown) => void;
};
worker.onmessage = ({ data: { path, text } }) => {
  worker.postMessage(colouredLines(path, text));
};
