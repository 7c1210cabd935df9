import { flush, headerOf, lineOf, linePacket, readPackets, type Packet } from './pkt-line.ts';
import { isCommitSha } from './ref-list.ts';

/** A change of one reference, which a client pushes. */
export interface RefUpdate {
  /** The full name: `refs/heads/main`. */
  readonly name: string;
  /** The commit that the client expects; undefined for a new reference. */
  readonly from: string | undefined;
  /** The new commit; undefined for a deletion. */
  readonly to: string | undefined;
}

/** The beginning of the body of a push. Options and the pack with the new objects follow it. */
export type PushHead =
  | {
      readonly kind: 'commands';
      /** Empty in a request that only checks whether the host accepts the client. */
      readonly updates: readonly RefUpdate[];
      readonly capabilities: ReadonlySet<string>;
    }
  /** The commands continue behind the bytes. */
  | { readonly kind: 'incomplete' }
  /** The bytes are no push, or a signed one, whose commands are in a certificate. */
  | { readonly kind: 'unreadable' };

type PushCommands = Extract<PushHead, { readonly kind: 'commands' }>;

const unreadable: PushHead = { kind: 'unreadable' };
const noCommit = /^0+$/;
/** Maximum bytes of the report in one packet of side-band-64k, which has a header and a band. */
const maxBandBytes = 65_520 - 5;
/** The band of the report. Other bands carry progress and errors. */
const reportBand = Buffer.from([1]);

/** Reads the commands in the first bytes of a push. Source: git's gitprotocol-pack.adoc. */
export const readPushHead = (bytes: Buffer): PushHead => readPackets(bytes, readHead) ?? unreadable;

function readHead(packets: Iterable<Packet>): PushHead {
  const updates: RefUpdate[] = [];
  let capabilities: ReadonlySet<string> = new Set();
  for (const data of packets) {
    if (data === 'flush') return { kind: 'commands', updates, capabilities };
    if (typeof data === 'string') return unreadable;
    const [command = '', list] = lineOf(data).split('\0', 2);
    if (list !== undefined) capabilities = new Set(list.split(' ').filter(Boolean));
    if (command.startsWith('shallow ')) continue;
    const update = updateOf(command);
    if (update === undefined) return unreadable;
    updates.push(update);
  }
  return { kind: 'incomplete' };
}

function updateOf(command: string): RefUpdate | undefined {
  const [from = '', to = '', ...rest] = command.split(' ');
  const name = rest.join(' ');
  if (!isCommitSha(from) || !isCommitSha(to) || name === '') return undefined;
  return { name, from: commitOf(from), to: commitOf(to) };
}

const commitOf = (sha: string): string | undefined => (noCommit.test(sha) ? undefined : sha);

/**
 * The body of an answer that refuses each update of a push. Git shows the reason, one line of text,
 * behind the name of the reference. Empty for a client that wants no report.
 */
export function reportOfRefusal(
  { updates, capabilities }: PushCommands,
  reasonOf: (update: RefUpdate) => string,
): Buffer {
  if (!capabilities.has('report-status') && !capabilities.has('report-status-v2'))
    return Buffer.alloc(0);
  const lines = updates.map((update) => `ng ${update.name} ${reasonOf(update)}`);
  const report = Buffer.from(['unpack ok', ...lines].map(linePacket).join('') + flush);
  return capabilities.has('side-band-64k') ? inBand(report) : report;
}

function inBand(report: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < report.length; at += maxBandBytes) {
    const part = report.subarray(at, at + maxBandBytes);
    parts.push(Buffer.from(headerOf(reportBand.length + part.length)), reportBand, part);
  }
  return Buffer.concat([...parts, Buffer.from(flush)]);
}
