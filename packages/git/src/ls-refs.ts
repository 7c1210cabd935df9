import { delimiter, flush, lineOf, linePacket, readPackets, type Packet } from './pkt-line.ts';
import { fullNames, heads, isCommitSha, RefList, type Refs } from './ref-list.ts';

/** The capabilities of a host of protocol version 2 that the command `ls-refs` depends on. */
export interface Capabilities {
  readonly objectFormat: string | undefined;
  /** Whether the host reports the default branch of a repository without commits. */
  readonly unborn: boolean;
}

const symrefTarget = 'symref-target:';

/** Reads the capabilities that follow the line `version 2`. */
export function readCapabilities(packets: IterableIterator<Packet>): Capabilities {
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

/** The body of a version 2 request for branches and HEAD, or for what `named` may mean. */
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

/**
 * Reads the answer to `listRequest`; undefined when it is none. An empty list is a repository
 * without commits.
 *
 * @param named The requested branch or tag.
 */
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
