/** The sections of a release, by https://keepachangelog.com/en/1.1.0/. */
const kinds = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'] as const;
export type ChangeKind = (typeof kinds)[number];

export interface Change {
  readonly kind: ChangeKind;
  readonly text: string;
}

export interface Release {
  /** A semantic version, or `Unreleased`. */
  readonly version: string;
  /** Absent for `Unreleased`. */
  readonly date: string | undefined;
  readonly changes: readonly Change[];
  /** The section as Markdown, without its heading. */
  readonly notes: string;
}

const isKind = (text: string): text is ChangeKind => kinds.some((kind) => kind === text);
function isDate(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** Ordering of two semantic versions without a suffix. */
function compareVersions(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => version.split('.').map(Number));
  return (
    a?.map((part, index) => part - (b?.[index] ?? 0)).find((difference) => difference !== 0) ?? 0
  );
}

/** The changes of one section, or an error for a line that is none. */
function changesOf(lines: readonly string[], version: string): readonly Change[] {
  const seen = new Map<ChangeKind, string[]>();
  let texts: string[] | undefined;
  for (const line of lines) {
    const heading = /^### (.*)$/.exec(line)?.[1];
    if (heading !== undefined) {
      if (!isKind(heading))
        throw new Error(`${version}: "${heading}" is none of ${kinds.join(', ')}`);
      if (seen.has(heading)) throw new Error(`${version}: "${heading}" occurs twice`);
      seen.set(heading, (texts = []));
    } else if (line.startsWith('- ')) {
      if (texts === undefined)
        throw new Error(`${version}: a change precedes the headings: ${line}`);
      texts.push(line.slice(2));
    } else if (line.startsWith('  ') && texts !== undefined && texts.length > 0) {
      texts.push(`${texts.pop() ?? ''} ${line.trim()}`);
    } else if (line !== '') {
      throw new Error(`${version}: neither a heading nor a change: ${line}`);
    }
  }
  const empty = [...seen].find(([, list]) => list.length === 0);
  if (empty !== undefined) throw new Error(`${version}: "${empty[0]}" is empty`);
  return [...seen].flatMap(([kind, list]) => list.map((text) => ({ kind, text })));
}

/**
 * The releases of a changelog, the newest first. Throws an error that names the first fault of its
 * form.
 */
export function parseChangelog(text: string): readonly Release[] {
  const lines = text.split('\n');
  const links = lines.flatMap((line) => /^\[([^\]]+)\]: https:\/\/\S+$/.exec(line)?.[1] ?? []);
  const [, ...sections] = lines
    .filter((line) => !/^\[[^\]]+\]: /.test(line))
    .join('\n')
    .split(/^## /m);
  const releases = sections.map((section): Release => {
    const [heading = '', ...body] = section.trimEnd().split('\n');
    const [, version, date] =
      /^\[(Unreleased|\d+\.\d+\.\d+)\](?: - (\d{4}-\d{2}-\d{2}))?$/.exec(heading) ?? [];
    if (version === undefined)
      throw new Error(`neither [Unreleased] nor [VERSION] - DATE: ${heading}`);
    if ((version === 'Unreleased') !== (date === undefined))
      throw new Error(`${version}: a version has a date, and Unreleased has none`);
    if (date !== undefined && !isDate(date)) throw new Error(`${version}: ${date} is no date`);
    return {
      version,
      date,
      changes: changesOf(body, version),
      notes: `${body.join('\n').trim()}\n`,
    };
  });
  const [first, ...released] = releases;
  if (!text.startsWith('# Changelog\n')) throw new Error('the title is not "# Changelog"');
  if (first?.version !== 'Unreleased') throw new Error('the first section is not [Unreleased]');
  for (const [index, { version, date = '', changes }] of released.entries()) {
    if (changes.length === 0) throw new Error(`${version}: no change`);
    const next = released[index + 1];
    if (next === undefined) break;
    if (
      next.version === 'Unreleased' ||
      compareVersions(version, next.version) <= 0 ||
      date < (next.date ?? '')
    )
      throw new Error(`${next.version} follows ${version}`);
  }
  const unknown = links.find((link) => !releases.some(({ version }) => version === link));
  if (unknown !== undefined) throw new Error(`the link [${unknown}] has no section`);
  return releases;
}
