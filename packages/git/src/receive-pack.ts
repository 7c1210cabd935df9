import { isUtf8 } from 'node:buffer';
import { bandPackets, flush, lineOf, linePacket, packetAt, sideBand } from './pkt-line.ts';
import { isCommitSha } from './ref-list.ts';

/** One command of a push. Both ids are unabbreviated and in lower case. */
export interface RefCommand {
  /** Full name of the reference, which begins with `refs/`. */
  readonly ref: string;
  /** The id that the client expects the reference to have; zeros if the reference is created. */
  readonly oldId: string;
  /** The new id of the reference; zeros if the reference is deleted. */
  readonly newId: string;
}

/** The beginning of the body of a request for `git-receive-pack`. */
export interface Push {
  /** Each command is for a different reference. A request that only probes the host has none. */
  readonly commands: readonly RefCommand[];
  /** Capabilities that the client uses: `name`, or `name=value` for one with a value. */
  readonly capabilities: ReadonlySet<string>;
  /** For a shallow clone, the commits whose parents it lacks. Hosts may ignore these parents. */
  readonly shallow?: ReadonlySet<string>;
  /** Values of `git push --push-option`, to which the host may react; absent without any. */
  readonly options?: readonly string[];
}

/** The beginning of a push is invalid. The message is a sentence for people. */
export class PushError extends Error {
  override readonly name = 'PushError';
}

const maxCommands = 100;
/** Maximum bytes of the list of commands, and of the list of push options. */
const maxListBytes = 64 * 1024;
/** Maximum bytes of a reference's name, which shares a packet with the reason of a refusal. */
const maxRefBytes = 4096;
/** Maximum bytes that are forwarded, or searched for packets, in one piece. */
const pieceBytes = 64 * 1024;
/** Maximum size of an empty buffer that is kept for further bytes. */
const maxReusedBytes = 256 * 1024;
/** Maximum characters of a reason, and of a message, in a refusal. */
const maxTextLength = 300;

export const pushOptions = 'push-options';
/** Capabilities of a client that reads the host's report on a push. */
const reports = ['report-status', 'report-status-v2'] as const;
const band = 'side-band-64k';
/** Capabilities that have no value and that this module supports. */
const flags: ReadonlySet<string> = new Set([pushOptions, ...reports, band]);

const nothing = Buffer.alloc(0);

/** Holds bytes in one buffer. Adding a byte has an amortized constant cost. */
class HeldBytes {
  #bytes = nothing;
  #start = 0;
  #end = 0;

  /** A view, which is valid until bytes are dropped. */
  get view(): Buffer {
    return this.#bytes.subarray(this.#start, this.#end);
  }

  add(chunk: Uint8Array): void {
    if (this.#end + chunk.length > this.#bytes.length) this.#makeRoomFor(chunk.length);
    this.#bytes.set(chunk, this.#end);
    this.#end += chunk.length;
  }

  drop(bytes: number): void {
    this.#start += bytes;
    if (this.#start < this.#end) return;
    this.#start = 0;
    this.#end = 0;
    if (this.#bytes.length > maxReusedBytes) this.#bytes = nothing;
  }

  #makeRoomFor(bytes: number): void {
    const { view } = this;
    const needed = view.length + bytes;
    // Bytes move to the beginning of the buffer once per `drop`, so the cost per byte is constant.
    if (this.#start === 0 || needed > this.#bytes.length)
      this.#bytes = Buffer.allocUnsafeSlow(Math.max(needed, 2 * view.length));
    this.#bytes.set(view);
    this.#start = 0;
    this.#end = view.length;
  }
}

/**
 * The body of a push. `more` reads the beginning into memory, before a decision whether to forward
 * the push. The iteration then yields all bytes once, from the first on and unchanged. Reads
 * nothing from the source in advance. Throws the errors of the source.
 */
export class PushBody implements AsyncIterable<Buffer> {
  readonly #source: AsyncIterator<Uint8Array, unknown>;
  readonly #held = new HeldBytes();
  #passed = 0;
  #isForwarded = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Read bytes that `pass` has not removed. The view is valid until the iteration begins. */
  get ahead(): Buffer {
    return this.#held.view.subarray(this.#passed);
  }

  /** Removes the first `bytes` from `ahead`. The iteration still yields them. */
  pass(bytes: number): void {
    this.#passed += bytes;
  }

  async more(): Promise<boolean> {
    if (this.#isForwarded) throw new Error('The body of a push is being forwarded already.');
    for (;;) {
      const { value, done } = await this.#source.next();
      if (done === true) return false;
      if (value.length === 0) continue;
      this.#held.add(value);
      return true;
    }
  }

  /** An iteration that ends early also ends the source. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    if (this.#isForwarded) throw new Error('The body of a push is forwarded once.');
    this.#isForwarded = true;
    this.#passed = 0;
    try {
      for (let { view } = this.#held; view.length > 0; { view } = this.#held) {
        yield view.subarray(0, pieceBytes);
        this.#held.drop(Math.min(pieceBytes, view.length));
      }
      for (;;) {
        const { value, done } = await this.#source.next();
        if (done === true) return;
        yield Buffer.from(value.buffer, value.byteOffset, value.length);
      }
    } finally {
      await this.#source.return?.();
    }
  }
}

/**
 * Reads the commands at the beginning of a push; `body.ahead` then begins with the pack. Throws
 * `PushError` for invalid commands; the caller can still forward or discard the body. Unlike
 * git, refuses bytes that two parsers could read differently. Source: git's gitprotocol-pack.adoc.
 */
export async function readPush(body: PushBody): Promise<Push> {
  const commands: RefCommand[] = [];
  const names = new Set<string>();
  const shallow = new Set<string>();
  let capabilities: ReadonlySet<string> | undefined;
  for await (const data of listIn(body)) {
    if (!isUtf8(data)) throw new PushError('A name in the push is no text in UTF-8.');
    const line = lineOf(data);
    if (line.startsWith('shallow ')) {
      shallow.add(shallowCommit(line));
      continue;
    }
    const nul = capabilities === undefined ? line.indexOf('\0') : -1;
    const text = nul < 0 ? line : line.slice(0, nul);
    if (text === 'push-cert')
      throw new PushError('Signed pushes are not supported: push without --signed.');
    capabilities ??= readCapabilities(nul < 0 ? '' : line.slice(nul + 1));
    const command = readCommand(text, idLengthOf(capabilities));
    if (names.has(command.ref)) throw new PushError('The push names a reference twice.');
    if (commands.length === maxCommands)
      throw new PushError(`A push can change at most ${maxCommands} references.`);
    names.add(command.ref);
    commands.push(command);
  }
  capabilities ??= new Set();
  const options = capabilities.has(pushOptions) ? await readOptions(body) : [];
  return {
    commands,
    capabilities,
    ...(shallow.size > 0 ? { shallow } : {}),
    ...(options.length > 0 ? { options } : {}),
  };
}

/** Yields the packets up to the next flush packet, and removes all of them from `body.ahead`. */
async function* listIn(body: PushBody): AsyncGenerator<Buffer, void, undefined> {
  for (let bytes = 0; ;) {
    const framed = packetAt(body.ahead, 0);
    if (framed === 'malformed')
      throw new PushError('The push does not begin with a list in the format of git.');
    if (framed === 'truncated') {
      if (!(await body.more())) throw new PushError('The push ends within its list of commands.');
      continue;
    }
    const { packet, end } = framed;
    bytes += end;
    if (bytes > maxListBytes)
      throw new PushError(
        `The list of commands, or of options, of the push has more than ${maxListBytes} bytes.`,
      );
    body.pass(end);
    if (packet === 'flush') return;
    if (typeof packet === 'string')
      throw new PushError('The list of commands of the push contains a mark that ends no list.');
    yield packet;
  }
}

/** Reads the push options, which may have any encoding. */
async function readOptions(body: PushBody): Promise<readonly string[]> {
  const options: string[] = [];
  for await (const data of listIn(body)) options.push(lineOf(data));
  return options;
}

function shallowCommit(line: string): string {
  const id = line.slice('shallow '.length);
  if (!isCommitSha(id)) throw new PushError('The push has a shallow line without a commit.');
  return id;
}

function readCapabilities(text: string): ReadonlySet<string> {
  if (!/^[\x20-\x7e]*$/.test(text))
    throw new PushError('The capabilities of the push contain characters that git does not use.');
  const names = text.split(' ').filter((name) => name !== '');
  // Git treats `name=value` like `name` for the capabilities in `flags`.
  if (names.some((name) => name.includes('=') && flags.has(name.split('=', 1)[0] ?? '')))
    throw new PushError('A capability of the push has a value that git does not use.');
  return new Set(names);
}

const idLengths: ReadonlyMap<string, number> = new Map([
  ['sha1', 40],
  ['sha256', 64],
]);

function idLengthOf(capabilities: ReadonlySet<string>): number {
  const prefix = 'object-format=';
  const formats = [...capabilities].filter((name) => name.startsWith(prefix));
  const [format = `${prefix}sha1`, another] = formats;
  const length = idLengths.get(format.slice(prefix.length));
  if (length === undefined || another !== undefined)
    throw new PushError('The push uses a format of objects that is not supported.');
  return length;
}

const zeros = /^0+$/;

function readCommand(text: string, idLength: number): RefCommand {
  const oldId = text.slice(0, idLength);
  const newId = text.slice(idLength + 1, 2 * idLength + 1);
  const spaces = `${text[idLength]}${text[2 * idLength + 1]}`;
  if (spaces !== '  ' || ![oldId, newId].every((id) => isCommitSha(id) && id.length === idLength))
    throw new PushError('A command of the push does not consist of two ids and a reference.');
  const ref = text.slice(2 * idLength + 2);
  if (!isPushableRef(ref))
    throw new PushError(
      'A command of the push names no valid reference below refs/, or one that is too long.',
    );
  if (zeros.test(oldId) && zeros.test(newId))
    throw new PushError('A command of the push neither creates, changes nor deletes a reference.');
  return { ref, oldId, newId };
}

/** Matches a name of a reference that `git check-ref-format` refuses. */
const badInRef =
  // eslint-disable-next-line no-control-regex -- git refuses these too
  /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|[./]$/;

const isPushableRef = (ref: string): boolean =>
  ref.startsWith('refs/') && Buffer.byteLength(ref) <= maxRefBytes && !badInRef.test(ref);

/** Whether the client asks for a report. Only a report proves the outcome of the push. */
export const asksForReport = ({ capabilities }: Push): boolean =>
  reports.some((name) => capabilities.has(name));

/** Reason for references that are refused only because the push contains another refused one. */
const refusedWithAnother = 'another reference of this push was refused';

/**
 * Returns a body of the type `application/x-git-receive-pack-result` that refuses all references of
 * a push, so that `git push` fails and shows the reasons. Returns undefined if the client reads no
 * report; the caller can then only send a status such as 403.
 * @param reasons Reasons by the name of a reference. References without a reason are refused too.
 * @param message Further text that git shows, if the client supports a side band.
 */
export function refusalOf(
  push: Push,
  reasons: ReadonlyMap<string, string>,
  message?: string,
): Buffer | undefined {
  if (!asksForReport(push)) return undefined;
  const { commands, capabilities } = push;
  const lines = commands.map(({ ref }) => {
    const reason = reasons.get(ref);
    return linePacket(
      `ng ${ref} ${reason === undefined ? refusedWithAnother : shown(reason) || 'refused'}`,
    );
  });
  const report = Buffer.from(`${linePacket('unpack ok')}${lines.join('')}${flush}`);
  if (!capabilities.has(band)) return report;
  return Buffer.concat([
    bandPackets(sideBand.progress, Buffer.from(linesOf(message ?? ''))),
    bandPackets(sideBand.data, report),
    Buffer.from(flush),
  ]);
}

/** Returns the text on one line, without characters that control a terminal or text direction. */
const shown = (text: string): string =>
  shortened(text)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();

/** Truncates the text to `maxTextLength` characters, the last of which is then `…`. */
function shortened(text: string): string {
  const characters = Array.from(text.slice(0, 2 * maxTextLength + 2).toWellFormed());
  if (characters.length <= maxTextLength) return characters.join('');
  return `${characters.slice(0, maxTextLength - 1).join('')}…`;
}

const linesOf = (message: string): string =>
  shortened(message)
    .split('\n')
    .map(shown)
    .filter((line) => line !== '')
    .map((line) => `${line}\n`)
    .join('');

/** Parses the packets of a stream, and buffers at most one of them. Stops at malformed bytes. */
class PacketStream {
  readonly #held = new HeldBytes();
  #isMalformed = false;

  /** Yields the data of packets that this chunk completes. Views are valid until the next yield. */
  *add(chunk: Uint8Array): Generator<Buffer, void, undefined> {
    for (let at = 0; at < chunk.length && !this.#isMalformed; at += pieceBytes) {
      this.#held.add(chunk.subarray(at, at + pieceBytes));
      yield* this.#complete();
    }
  }

  *#complete(): Generator<Buffer, void, undefined> {
    const { view } = this.#held;
    let end = 0;
    for (;;) {
      const framed = packetAt(view, end);
      if (framed === 'truncated') break;
      if (framed === 'malformed') {
        this.#isMalformed = true;
        end = view.length;
        break;
      }
      if (typeof framed.packet !== 'string') yield framed.packet;
      end = framed.end;
    }
    this.#held.drop(end);
  }
}

/**
 * Reads a host's report on a push from the response while the response is forwarded. Buffers at
 * most two packets, whatever the host sends, and ignores bytes that are not a report.
 */
export class ReportReader {
  readonly #refs: ReadonlySet<string>;
  readonly #accepted = new Set<string>();
  readonly #rejected = new Set<string>();
  readonly #packets = new PacketStream();
  /** The packets within the data side band; undefined if the client uses no side band. */
  readonly #inner: PacketStream | undefined;
  /** Undefined until the first line of the report has arrived. */
  #unpacked: 'ok' | 'failed' | 'unreadable' | undefined;

  constructor({ commands, capabilities }: Push) {
    this.#refs = new Set(commands.map(({ ref }) => ref));
    this.#inner = capabilities.has(band) ? new PacketStream() : undefined;
  }

  /** The references of the push whose commands the host has reported as done. */
  get accepted(): ReadonlySet<string> {
    return this.#accepted;
  }

  /** References that the host has refused. References in neither set have an unknown result. */
  get rejected(): ReadonlySet<string> {
    return this.#rejected;
  }

  /** Reads the next bytes of the response's body. Never throws. */
  push(chunk: Uint8Array): void {
    for (const data of this.#packets.add(chunk)) {
      if (this.#inner === undefined) this.#read(lineOf(data));
      else if (data[0] === sideBand.data)
        for (const line of this.#inner.add(data.subarray(1))) this.#read(lineOf(line));
    }
  }

  /** Reads a line: first the result of the pack, then the results and options of references. */
  #read(line: string): void {
    if (this.#unpacked === undefined) {
      const isResult = line.startsWith('unpack ');
      this.#unpacked = line === 'unpack ok' ? 'ok' : isResult ? 'failed' : 'unreadable';
      return;
    }
    const [result, ref = ''] = line.split(' ', 2);
    if (this.#unpacked === 'unreadable' || !this.#refs.has(ref)) return;
    if (result === 'ng') {
      this.#accepted.delete(ref);
      this.#rejected.add(ref);
    } else if (result === 'ok' && this.#unpacked === 'ok') {
      this.#rejected.delete(ref);
      this.#accepted.add(ref);
    }
  }
}
