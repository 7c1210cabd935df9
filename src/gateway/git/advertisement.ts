import { isBranchName } from '../v1/schemas.ts';
import type { GitBranch } from './directory.ts';
import { delimiter, flush, MalformedPacketError, packet, packetsOf } from './pkt-line.ts';

/** The branches and the default branch; the latter is undefined where HEAD names none. */
export interface Refs {
  readonly branches: readonly GitBranch[];
  readonly defaultBranch: string | undefined;
  /**
   * Whether the requested branch or tag is among the references; absent where none was requested.
   */
  readonly hasNamed?: boolean;
}

/** The capabilities of a host of protocol version 2 that requests for references depend on. */
export interface Capabilities {
  readonly objectFormat: string | undefined;
  /** Whether the host reports the default branch of a repository without commits. */
  readonly unborn: boolean;
}

/** The content of a host's answer to `info/refs`. */
export type Advertisement =
  | {
      readonly kind: 'refs';
      readonly refs: Refs;
      /** Whether the host only serves files. The target of HEAD is then in a file of its own. */
      readonly isPlain: boolean;
    }
  | { readonly kind: 'capabilities'; readonly capabilities: Capabilities }
  /** The host refuses the request within an answer of status 200. */
  | { readonly kind: 'refused'; readonly isAboutAccess: boolean }
  /** The answer is none of a git host, but a login page or a captive portal. */
  | { readonly kind: 'unreadable' };

const unreadable: Advertisement = { kind: 'unreadable' };
const heads = 'refs/heads/';
/** The references that a name may mean to `git clone --branch`. */
const fullNames = (name: string): readonly string[] => [`${heads}${name}`, `refs/tags/${name}`];
/** A commit is named by its SHA-1 or SHA-256. */
const sha = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const aboutAccess =
  /not found|not exist|denied|permission|access|not authori[sz]ed|unauthori[sz]ed|forbidden/i;

/** Collects references, of which there may be tens of thousands. */
class RefList {
  readonly #branches: GitBranch[] = [];
  #head: string | undefined;
  #defaultBranch: string | undefined;
  readonly #named: string | undefined;
  #hasNamed = false;

  constructor(named?: string) {
    this.#named = named;
  }

  add(commitSha: string, name: string): void {
    if (this.#named !== undefined && fullNames(this.#named).includes(name)) this.#hasNamed = true;
    if (name === 'HEAD') this.#head = commitSha;
    else if (name.startsWith(heads) && isBranch(name.slice(heads.length)))
      this.#branches.push({ name: name.slice(heads.length), commitSha });
  }

  /** @param target The reference that HEAD points to. */
  pointHead(target: string): void {
    if (target.startsWith(heads) && isBranch(target.slice(heads.length)))
      this.#defaultBranch = target.slice(heads.length);
  }

  /**
   * Returns the references. Where a host does not report the target of HEAD, it is guessed as git
   * does: a branch of the same commit.
   */
  refs(): Refs {
    const named = this.#named === undefined ? {} : { hasNamed: this.#hasNamed };
    const candidates = this.#branches
      .filter(({ commitSha }) => commitSha === this.#head)
      .map(({ name }) => name);
    const guess = ['main', 'master'].find((name) => candidates.includes(name)) ?? candidates[0];
    const defaultBranch = this.#defaultBranch ?? guess;
    const [head, isListed] = [
      this.#head,
      this.#branches.some(({ name }) => name === defaultBranch),
    ];
    // HEAD is the first reference, so it is known even where the list was truncated before its
    // branch.
    if (defaultBranch === undefined || head === undefined || isListed)
      return { branches: this.#branches, defaultBranch, ...named };
    return {
      branches: [{ name: defaultBranch, commitSha: head }, ...this.#branches],
      defaultBranch,
      ...named,
    };
  }
}

/** Whether a start accepts the name. Other names are left out: a client could not use them. */
const isBranch = (name: string): boolean => !name.includes('\u{fffd}') && isBranchName(name);

const lineOf = (data: Buffer): string => data.toString('utf8').replace(/\n$/, '');

/**
 * Reads the answer to `info/refs?service=git-upload-pack`: git's smart protocol of version 0, 1 or
 * 2, or the plain list of a host that only serves files. A truncated body yields the references
 * that have arrived.
 *
 * @param named The requested branch or tag.
 */
export function readAdvertisement(
  body: Buffer,
  contentType: string,
  named?: string,
): Advertisement {
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (type !== 'application/x-git-upload-pack-advertisement')
    return type === 'text/html' ? unreadable : readPlainList(body, named);
  try {
    return readSmart(body, named);
  } catch (error) {
    if (error instanceof MalformedPacketError) return unreadable;
    throw error;
  }
}

function readSmart(body: Buffer, named: string | undefined): Advertisement {
  const lines = packetsOf(body);
  const list = new RefList(named);
  let any = false;
  for (const data of lines) {
    if (typeof data === 'string') {
      // A flush packet follows the line that names the service, and ends the list.
      if (any) break;
      continue;
    }
    const line = lineOf(data);
    if (line.startsWith('ERR ')) return { kind: 'refused', isAboutAccess: aboutAccess.test(line) };
    if (!any && (line.startsWith('# service=') || line === 'version 1')) continue;
    if (!any && line === 'version 2')
      return { kind: 'capabilities', capabilities: readCapabilities(lines) };
    const [reference = '', capabilities = ''] = line.split('\0', 2);
    const space = reference.indexOf(' ');
    const [commitSha, name] = [reference.slice(0, space), reference.slice(space + 1)];
    if (space < 0 || (!sha.test(commitSha) && commitSha !== 'shallow')) return unreadable;
    if (!any)
      for (const [, target = ''] of capabilities.matchAll(/(?:^| )symref=HEAD:(\S+)/g))
        list.pointHead(target);
    any = true;
    list.add(commitSha, name);
  }
  return any ? { kind: 'refs', refs: list.refs(), isPlain: false } : unreadable;
}

function readCapabilities(lines: Iterable<Buffer | string>): Capabilities {
  let objectFormat: string | undefined;
  let unborn = false;
  for (const data of lines) {
    if (typeof data === 'string') break;
    const [name = '', value = ''] = lineOf(data).split('=', 2);
    if (name === 'object-format' && /^[a-z0-9-]{1,32}$/.test(value)) objectFormat = value;
    if (name === 'ls-refs') unborn = value.split(' ').includes('unborn');
  }
  return { objectFormat, unborn };
}

function readPlainList(body: Buffer, named: string | undefined): Advertisement {
  const text = body.toString('utf8');
  const list = new RefList(named);
  // A last line without a line end is truncated, and left out.
  const lines = text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
  for (const line of lines) {
    const [commitSha = '', name, ...rest] = line.split('\t');
    if (!sha.test(commitSha) || name === undefined || rest.length > 0) return unreadable;
    list.add(commitSha, name);
  }
  return lines.length > 0 ? { kind: 'refs', refs: list.refs(), isPlain: true } : unreadable;
}

/**
 * The default branch in the file HEAD of a host that only serves files; undefined where HEAD names
 * no branch.
 */
export function readPlainHead(text: string): string | undefined {
  const name = /^ref: refs\/heads\/(\S+)\s*$/.exec(text)?.[1];
  return name !== undefined && isBranch(name) ? name : undefined;
}

/**
 * The body of a request of version 2 for the branches and HEAD, or for the references that `named`
 * may mean.
 */
export const listRequest = ({ objectFormat, unborn }: Capabilities, named?: string): string =>
  [
    packet('command=ls-refs\n'),
    ...(objectFormat === undefined ? [] : [packet(`object-format=${objectFormat}\n`)]),
    delimiter,
    packet('symrefs\n'),
    ...(unborn ? [packet('unborn\n')] : []),
    ...(named === undefined ? ['HEAD', heads] : fullNames(named)).map((prefix) =>
      packet(`ref-prefix ${prefix}\n`),
    ),
    flush,
  ].join('');

/**
 * The answer to `listRequest`; undefined when it is none. An empty list is a repository without
 * commits.
 */
export function readList(body: Buffer, named?: string): Refs | undefined {
  const list = new RefList(named);
  let any = false;
  try {
    for (const data of packetsOf(body)) {
      any = true;
      if (typeof data === 'string') break;
      const [commitSha = '', name = '', ...attributes] = lineOf(data).split(' ');
      if (commitSha !== 'unborn' && !sha.test(commitSha)) return undefined;
      const target = attributes.find((attribute) => attribute.startsWith('symref-target:'));
      if (name === 'HEAD' && target !== undefined)
        list.pointHead(target.slice('symref-target:'.length));
      if (commitSha !== 'unborn') list.add(commitSha, name);
    }
  } catch (error) {
    if (error instanceof MalformedPacketError) return undefined;
    throw error;
  }
  return any ? list.refs() : undefined;
}
