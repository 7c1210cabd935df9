import {
  lineOf,
  readPackets,
  type Packet,
  delimiter,
  flush,
  linePacket,
  packetAt,
} from './pkt-line.ts';
import { isCommitSha, RefList, type Refs, branchOf, fullNames, heads } from './ref-list.ts';
import { mediaTypeOf, smartType } from './smart-http.ts';

/** Capabilities of a git host, in protocol version 2, on which the request `ls-refs` depends. */
export interface Capabilities {
  readonly objectFormat: string | undefined;
  /** Whether the host reports the default branch of a repository without commits. */
  readonly unborn: boolean;
}

const symrefTarget = 'symref-target:';

function readCapabilities(packets: IterableIterator<Packet>): Capabilities {
  let objectFormat: string | undefined;
  let unborn = false;
  for (const data of packets) {
    if (typeof data === 'string') break;
    const [name = '', value = ''] = lineOf(data).split('=', 2);
    if (name === 'object-format' && /^[a-z0-9-]{1,32}$/.test(value)) objectFormat = value;
    if (name === 'ls-refs') unborn = value.split(' ').includes('unborn');
  }
  return { objectFormat, unborn };
}

/** Returns an `ls-refs` request for HEAD and all branches, or for the branch and tag `named`. */
export const listRequest = ({ objectFormat, unborn }: Capabilities, named?: string): string =>
  [
    linePacket('command=ls-refs'),
    ...(objectFormat === undefined ? [] : [linePacket(`object-format=${objectFormat}`)]),
    delimiter,
    linePacket('symrefs'),
    ...(unborn ? [linePacket('unborn')] : []),
    ...(named === undefined ? ['HEAD', heads] : fullNames(named)).map((prefix) =>
      linePacket(`ref-prefix ${prefix}`),
    ),
    flush,
  ].join('');

/** Reads the response to `listRequest`, which may have no references; undefined if invalid. */
export const readList = (body: Buffer, named?: string): Refs | undefined =>
  readPackets(body, (packets) => {
    const list = new RefList(named);
    let any = false;
    for (const data of packets) {
      any = true;
      if (typeof data === 'string') break;
      const [commitSha = '', name = '', ...attributes] = lineOf(data).split(' ');
      if (commitSha !== 'unborn' && !isCommitSha(commitSha)) return undefined;
      const target = attributes.find((attribute) => attribute.startsWith(symrefTarget));
      if (name === 'HEAD' && target !== undefined)
        list.pointHead(target.slice(symrefTarget.length));
      if (commitSha !== 'unborn') list.add(commitSha, name);
    }
    return any ? list.refs() : undefined;
  });

/** Reads `info/refs` of the dumb HTTP protocol; undefined if invalid. Omits a truncated line. */
function readPlainList(body: Buffer, named: string | undefined): Refs | undefined {
  const text = body.toString('utf8');
  const list = new RefList(named);
  const lines = text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
  for (const line of lines) {
    const [commitSha = '', name, ...rest] = line.split('\t');
    if (!isCommitSha(commitSha) || name === undefined || rest.length > 0) return undefined;
    list.add(commitSha, name);
  }
  return lines.length > 0 ? list.refs() : undefined;
}

/** Returns the branch that the file HEAD names; undefined if the file names no branch. */
export function readPlainHead(text: string): string | undefined {
  const target = /^ref: (\S+)\s*$/.exec(text)?.[1];
  return target === undefined ? undefined : branchOf(target);
}

export type Advertisement =
  | {
      readonly kind: 'refs';
      readonly refs: Refs;
      /** Whether the host uses the dumb HTTP protocol, in which the file HEAD names the branch. */
      readonly isPlain: boolean;
    }
  | { readonly kind: 'capabilities'; readonly capabilities: Capabilities }
  /** The host refuses the request within a response of status 200. */
  | { readonly kind: 'refused'; readonly isAboutAccess: boolean }
  /** The response is not from a git host, but for example from a login page or a captive portal. */
  | { readonly kind: 'unreadable' };

const unreadable: Advertisement = { kind: 'unreadable' };
const aboutAccess =
  /not found|not exist|denied|permission|access|not authori[sz]ed|unauthori[sz]ed|forbidden/i;

/**
 * Reads the response to `info/refs?service=git-upload-pack` in git's smart protocol, version 0, 1
 * or 2, or in its dumb protocol. A truncated body yields the references that have arrived.
 */
export function readAdvertisement(
  body: Buffer,
  contentType: string,
  named?: string,
): Advertisement {
  const type = mediaTypeOf(contentType);
  if (type === 'text/html') return unreadable;
  if (type === smartType('git-upload-pack', 'advertisement'))
    return readPackets(body, (packets) => readSmart(packets, named)) ?? unreadable;
  const refs = readPlainList(body, named);
  return refs === undefined ? unreadable : { kind: 'refs', refs, isPlain: true };
}

/**
 * Reads packets of the smart protocol. In each version, the first packet may name the service.
 * Versions 0 and 1 send the capabilities with the first reference; version 2 sends no references.
 * Source: git's gitprotocol-http.adoc.
 */
function readSmart(packets: IterableIterator<Packet>, named: string | undefined): Advertisement {
  const list = new RefList(named);
  let any = false;
  for (const data of packets) {
    if (typeof data === 'string') {
      // One flush packet follows the line that names the service; another one ends the list.
      if (any) break;
      continue;
    }
    const line = lineOf(data);
    if (line.startsWith('ERR ')) return { kind: 'refused', isAboutAccess: aboutAccess.test(line) };
    if (!any && (line.startsWith('# service=') || line === 'version 1')) continue;
    if (!any && line === 'version 2')
      return { kind: 'capabilities', capabilities: readCapabilities(packets) };
    const [reference = '', capabilities = ''] = line.split('\0', 2);
    const space = reference.indexOf(' ');
    const [commitSha, name] = [reference.slice(0, space), reference.slice(space + 1)];
    if (space < 0 || (!isCommitSha(commitSha) && commitSha !== 'shallow')) return unreadable;
    if (!any)
      for (const [, target = ''] of capabilities.matchAll(/(?:^| )symref=HEAD:(\S+)/g))
        list.pointHead(target);
    any = true;
    list.add(commitSha, name);
  }
  return any ? { kind: 'refs', refs: list.refs(), isPlain: false } : unreadable;
}

/** Maximum number of packets before the capabilities: the service, a flush and the version. */
const maxPacketsBefore = 8;

/**
 * Removes the capabilities `names` from a host's advertisement, so that clients do not use them.
 * Buffers only the packets up to the capabilities. Yields all other bytes unchanged, and throws the
 * errors of `source`.
 */
export async function* withoutCapabilities(
  source: AsyncIterable<Uint8Array>,
  names: ReadonlySet<string>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let held: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of source) {
    if (held === undefined) {
      yield chunk;
      continue;
    }
    held = Buffer.concat([held, chunk]);
    const changed = changedHead(held, names);
    if (changed === 'truncated') continue;
    yield changed;
    held = undefined;
  }
  if (held !== undefined && held.length > 0) yield held;
}

/** Removes `names` from the first packet with capabilities. All other bytes remain unchanged. */
function changedHead(bytes: Buffer, names: ReadonlySet<string>): Buffer | 'truncated' {
  for (let [at, count] = [0, 0]; count <= maxPacketsBefore; count++) {
    const framed = packetAt(bytes, at);
    if (framed === 'truncated') return framed;
    if (framed === 'malformed') break;
    const { packet, end } = framed;
    const nul = typeof packet === 'string' ? -1 : packet.indexOf(0);
    if (typeof packet !== 'string' && nul >= 0) {
      // The conversion to latin1 and back keeps the bytes of names in any encoding.
      const text = packet.toString('latin1');
      const kept = text
        .slice(nul + 1)
        .replace(/\n$/, '')
        .split(' ')
        .filter((name) => !names.has(name.split('=', 1)[0] ?? ''));
      const lineEnd = text.endsWith('\n') ? '\n' : '';
      const line = Buffer.from(`${text.slice(0, nul + 1)}${kept.join(' ')}${lineEnd}`, 'latin1');
      const length = (line.length + 4).toString(16).padStart(4, '0');
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(length), line, bytes.subarray(end)]);
    }
    at = end;
  }
  return bytes;
}
