import { readCapabilities, type Capabilities } from './ls-refs.ts';
import { lineOf, readPackets, type Packet } from './pkt-line.ts';
import { isCommitSha, RefList, type Refs, branchOf } from './ref-list.ts';
import { mediaTypeOf, smartType } from './smart-http.ts';

/**
 * The list in the file `info/refs` of a host that only serves files, which git calls a dumb host;
 * undefined when it is none. A truncated last line is left out.
 */
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

/** Default branch in the file HEAD of a plain file host; undefined where it names no branch. */
export function readPlainHead(text: string): string | undefined {
  const target = /^ref: (\S+)\s*$/.exec(text)?.[1];
  return target === undefined ? undefined : branchOf(target);
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
const aboutAccess =
  /not found|not exist|denied|permission|access|not authori[sz]ed|unauthori[sz]ed|forbidden/i;

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
  const type = mediaTypeOf(contentType);
  if (type === 'text/html') return unreadable;
  if (type === smartType('git-upload-pack', 'advertisement'))
    return readPackets(body, (packets) => readSmart(packets, named)) ?? unreadable;
  const refs = readPlainList(body, named);
  return refs === undefined ? unreadable : { kind: 'refs', refs, isPlain: true };
}

/**
 * Reads an advertisement of the smart protocol. Each version may begin with the name of the
 * service. Versions 0 and 1 list the references, the first of them with the capabilities; version 2
 * lists capabilities only. Source: git's Documentation/gitprotocol-http.adoc.
 */
function readSmart(packets: IterableIterator<Packet>, named: string | undefined): Advertisement {
  const list = new RefList(named);
  let any = false;
  for (const data of packets) {
    if (typeof data === 'string') {
      // A flush packet follows the line that names the service, and ends the list.
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
