import { packetAt } from './pkt-line.ts';

/** Maximum packets before the one with the capabilities: the service, a mark and the version. */
const maxPacketsBefore = 8;

/**
 * Passes the advertisement of a host on without some of its capabilities, so that clients do not
 * use them. Only its beginning is held in memory. Other bytes than those of an advertisement of
 * the versions 0 and 1 pass unchanged, and an error of the source passes too.
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

/** The bytes with the first packet that has capabilities changed; unchanged where none has any. */
function changedHead(bytes: Buffer, names: ReadonlySet<string>): Buffer | 'truncated' {
  for (let [at, count] = [0, 0]; count <= maxPacketsBefore; count++) {
    const framed = packetAt(bytes, at);
    if (framed === 'truncated') return framed;
    if (framed === 'malformed') break;
    const { packet, end } = framed;
    const nul = typeof packet === 'string' ? -1 : packet.indexOf(0);
    if (typeof packet !== 'string' && nul >= 0) {
      // Names of references are bytes in any encoding.
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
