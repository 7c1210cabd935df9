import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { unprovenUpdates } from '../src/pack-head.ts';
import { bandPackets, delimiter, flush, packet, readPackets } from '../src/pkt-line.ts';
import {
  PushBody,
  PushError,
  readPush,
  refusalOf,
  ReportReader,
  type Push,
} from '../src/receive-pack.ts';

const [zero, one, two] = ['0', '1', '2'].map((digit) => digit.repeat(40)) as [
  string,
  string,
  string,
];
const long = 'a'.repeat(64);
const main = 'refs/heads/main';
const usual = ' report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5';
const first = (command: string, capabilities = usual) => packet(`${command}\0${capabilities}`);
const update = `${one} ${two} ${main}`;

// oxlint-disable-next-line @typescript-eslint/require-await -- a body is asynchronous
async function* pieces(body: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let [at, index] = [0, 0]; at < body.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    yield Buffer.from(body.subarray(at, at + size));
    at += size;
  }
}

const bodyOf = (body: string | Buffer, sizes: readonly number[] = [65_536]): PushBody =>
  new PushBody(pieces(Buffer.from(body), sizes));
const read = (body: string | Buffer): Promise<Push> => readPush(bodyOf(body));
const failureOf = (body: string | Buffer): Promise<unknown> =>
  read(body).then(
    () => undefined,
    (error: unknown) => error,
  );

async function bytesOf(body: PushBody): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 6 });

describe('the list of a push', () => {
  const capabilities = new Set(usual.trim().split(' '));
  const command = { ref: main, oldId: one, newId: two };

  it.each<[string, string, Push]>([
    ['one update', first(update) + flush, { commands: [command], capabilities }],
    ['line ends', first(update, `${usual}\n`) + flush, { commands: [command], capabilities }],
    ['no capabilities', packet(update) + flush, { commands: [command], capabilities: new Set() }],
    ['no command, which only probes', flush, { commands: [], capabilities: new Set() }],
    [
      'a creation, a deletion and a tag',
      first(`${zero} ${one} refs/heads/ünï/-x`) +
        packet(`${one} ${zero} refs/heads/gone\n`) +
        packet(`${one} ${two} refs/tags/v1`) +
        flush,
      {
        commands: [
          { ref: 'refs/heads/ünï/-x', oldId: zero, newId: one },
          { ref: 'refs/heads/gone', oldId: one, newId: zero },
          { ref: 'refs/tags/v1', oldId: one, newId: two },
        ],
        capabilities,
      },
    ],
    [
      'shallow lines',
      packet(`shallow ${one}\n`) + packet(`shallow ${two}`) + first(update) + flush,
      { commands: [command], capabilities, shallow: new Set([one, two]) },
    ],
    [
      'shallow lines alone',
      packet(`shallow ${one}`) + flush,
      { commands: [], capabilities: new Set(), shallow: new Set([one]) },
    ],
    [
      'SHA-256',
      first(`${long} ${'b'.repeat(64)} ${main}`, 'object-format=sha256') + flush,
      {
        commands: [{ ref: main, oldId: long, newId: 'b'.repeat(64) }],
        capabilities: new Set(['object-format=sha256']),
      },
    ],
    [
      'push options',
      first(update, 'push-options atomic') + flush + packet('ci.skip\n') + packet('') + flush,
      {
        commands: [command],
        capabilities: new Set(['push-options', 'atomic']),
        options: ['ci.skip', ''],
      },
    ],
    [
      'no push option although the client may send some',
      first(update, 'push-options') + flush + flush,
      { commands: [command], capabilities: new Set(['push-options']) },
    ],
  ])('is understood: %s', async (_name, list, expected) => {
    const body = bodyOf(`${list}PACK and so on`);
    expect(await readPush(body)).toEqual(expected);
    expect(body.ahead.toString()).toBe('PACK and so on');
    expect((await bytesOf(body)).toString()).toBe(`${list}PACK and so on`);
  });

  // Git takes a capability with a value for the same capability.
  it.each(['push-options', 'report-status', 'report-status-v2', 'side-band-64k'])(
    'has no value of the capability %s, which readers could understand differently',
    async (name) => {
      expect(await failureOf(first(update, `${name}=1`) + flush + flush)).toMatchObject({
        message: 'A capability of the push has a value that git does not use.',
      });
    },
  );

  it('may have 100 commands, and names of some thousand bytes', async () => {
    const list = (count: number) =>
      Array.from({ length: count }, (_, index) => packet(`${one} ${two} refs/heads/${index}`));
    expect((await read(list(100).join('') + flush)).commands).toHaveLength(100);
    expect(await failureOf(list(101).join('') + flush)).toMatchObject({
      message: 'A push can change at most 100 references.',
    });
    const name = `refs/heads/${'x'.repeat(4085)}`;
    expect((await read(packet(`${one} ${two} ${name}`) + flush)).commands[0]?.ref).toBe(name);
    expect(await failureOf(packet(`${one} ${two} ${name}x`) + flush)).toBeInstanceOf(PushError);
  });

  it.each<[string, string | Buffer, RegExp]>([
    ['nothing', '', /ends within/],
    ['no flush packet', first(update), /ends within/],
    ['a truncated packet', first(update).slice(0, -1), /ends within/],
    ['a truncated length', `${first(update)}00`, /ends within/],
    ['a page', '<html>', /format of git/],
    ['a length of three', '0003', /format of git/],
    ['a pack', 'PACK\0\0\0\x02', /format of git/],
    ['a length beyond what git allows', `ffff${'x'.repeat(0xffff)}`, /format of git/],
    ['a delimiter', first(update) + delimiter + flush, /mark/],
    ['a response end', `${first(update)}0002${flush}`, /mark/],
    ['an empty packet', packet('') + flush, /two ids/],
    ['one id', packet(`${one} ${main}`) + flush, /two ids/],
    ['a short id', packet(`${one.slice(1)} ${two} ${main}`) + flush, /two ids/],
    ['ids of two lengths', packet(`${one} ${long} ${main}`) + flush, /two ids/],
    ['an id in upper case', packet(`${'A'.repeat(40)} ${two} ${main}`) + flush, /two ids/],
    ['two spaces', packet(`${one}  ${two} ${main}`) + flush, /two ids/],
    ['a tab', packet(`${one}\t${two} ${main}`) + flush, /two ids/],
    ['SHA-256 without its capability', packet(`${long} ${long} ${main}`) + flush, /two ids/],
    ['SHA-1 with SHA-256', first(update, 'object-format=sha256') + flush, /two ids/],
    ['another format', first(update, 'object-format=sha512') + flush, /format of objects/],
    ['a property as format', first(update, 'object-format=valueOf') + flush, /format of objects/],
    [
      'two formats',
      first(update, 'object-format=sha1 object-format=sha256') + flush,
      /format of objects/,
    ],
    ['a tab between capabilities', first(update, 'a\tpush-options') + flush, /capabilities/],
    ['capabilities twice', first(update, `${usual}\0atomic`) + flush, /capabilities/],
    [
      'capabilities of a later command',
      first(update) + first(`${one} ${two} refs/heads/x`) + flush,
      /valid reference/,
    ],
    ['a name twice', first(update) + packet(`${two} ${one} ${main}`) + flush, /twice/],
    ['a command that does nothing', packet(`${zero} ${zero} ${main}`) + flush, /neither/],
    ['no name', packet(`${one} ${two} `) + flush, /valid reference/],
    ['HEAD', packet(`${one} ${two} HEAD`) + flush, /valid reference/],
    ['a name beside refs/', packet(`${one} ${two} objects/main`) + flush, /valid reference/],
    ['a line end in a name', packet(`${one} ${two} ${main}\n\n`) + flush, /valid reference/],
    [
      'a name that is no UTF-8',
      Buffer.from(packet(`${one} ${two} ${main}x`).replace('x', '\xff') + flush, 'latin1'),
      /UTF-8/,
    ],
    ['a shallow line without commit', packet('shallow abc') + flush, /shallow/],
    ['a shallow line with more', packet(`shallow ${one}\0push-options`) + flush, /shallow/],
    ['a push certificate', packet(`push-cert\0${usual}\n`) + flush, /--signed/],
    ['a push certificate after a command', first(update) + packet('push-cert\n'), /--signed/],
    ['options that are missing', first(update, 'push-options') + flush, /ends within/],
    ['a pack for options', `${first(update, 'push-options')}${flush}PACK`, /format of git/],
    ['a long list', packet(`shallow ${one}`).repeat(2000) + flush, /more than 65536 bytes/],
    [
      'long options',
      first(update, 'push-options') + flush + packet('x'.repeat(60_000)).repeat(2) + flush,
      /more than 65536 bytes/,
    ],
  ])('is refused: %s', async (_name, list, message) => {
    const body = bodyOf(list, [7]);
    const failure = await readPush(body).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(PushError);
    expect(failure).toMatchObject({ message: expect.stringMatching(message) as unknown });
    expect(failure).toMatchObject({ message: expect.stringMatching(/^[A-Z].*\.$/) as unknown });
    expect((await bytesOf(body)).equals(Buffer.from(list))).toBe(true);
  });

  it('has only names that git accepts', async () => {
    const names = [
      ...['main', 'a/b', '-x', '@', 'a@b', '{', 'a.b', 'ünï', 'a.lockx', 'lock', '😀', 'a\u{a0}b'],
      ...['', '/', 'a/', '/a', 'a//b', '.', '.a', 'a/.b', 'a.', 'a./b', '..', 'a..b', 'a.lock'],
      ...['a.lock/b', '.lock', '@{', 'a@{b', 'a b', 'a~', 'a^', 'a:', 'a?', 'a*', 'a[', 'a\\'],
      ...['a\x01', 'a\x7f', 'a\tb', 'a\nb'],
      ...fc
        .sample(
          fc.array(fc.constantFrom('a', '.', '/', '@', '{', '.lock', '-', '~', ' '), {
            maxLength: 5,
          }),
          { numRuns: 60, seed: 1 },
        )
        .map((parts) => parts.join('')),
    ];
    const accepted = await Promise.all(
      names.map(async (name) => {
        const ref = `refs/heads/${name}`;
        const failure = await failureOf(packet(`${one} ${two} ${ref}`) + flush);
        const { code } = await git(['check-ref-format', ref]);
        expect([ref, failure === undefined]).toEqual([ref, code === 0]);
        return code === 0;
      }),
    );
    expect(new Set(accepted).size).toBe(2);
  });

  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
    fc.string().map((line) => Buffer.from(packet(line))),
    fc
      .constantFrom(
        flush,
        delimiter,
        first(update),
        packet(`${zero} ${one} refs/heads/x`),
        packet(`shallow ${one}`),
        first(`${one} ${two} refs/heads/y`, 'push-options'),
      )
      .map((list) => Buffer.from(list)),
  );

  it('is understood alike in whatever pieces it arrives, and forwarded unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(piece), sizes, async (parts, sizesOfPieces) => {
        const bytes = Buffer.concat(parts);
        const outcomes = await Promise.all(
          [[65_536], sizesOfPieces, [1]].map(async (each) => {
            const body = bodyOf(bytes, each);
            let outcome: unknown;
            let ahead = 0;
            try {
              outcome = await readPush(body);
              while (await body.more());
              ahead = body.ahead.length;
            } catch (error) {
              expect(error).toBeInstanceOf(PushError);
              outcome = String(error);
            }
            expect((await bytesOf(body)).equals(bytes)).toBe(true);
            return [outcome, ahead];
          }),
        );
        expect(outcomes[1]).toEqual(outcomes[0]);
        expect(outcomes[2]).toEqual(outcomes[0]);
      }),
    );
  });

  it('is refused wherever it is truncated', async () => {
    const list =
      packet(`shallow ${one}`) +
      first(update, 'push-options') +
      packet(`${zero} ${one} refs/heads/x`) +
      flush +
      packet('option') +
      flush;
    await expect(read(list)).resolves.toMatchObject({ commands: { length: 2 } });
    for (let length = 0; length < list.length; length++)
      expect(await failureOf(list.slice(0, length))).toBeInstanceOf(PushError);
  });
});

describe('the body of a push', () => {
  it('is read no further than needed, and forwarded as it arrives', async () => {
    const chunks = [first(update) + flush, 'PACK', '', ...Array<string>(1000).fill('x')];
    let taken = 0;
    let isEnded = false;
    // oxlint-disable-next-line @typescript-eslint/require-await -- a body is asynchronous
    const source = async function* () {
      try {
        for (const chunk of chunks) {
          taken++;
          yield Buffer.from(chunk);
        }
      } finally {
        isEnded = true;
      }
    };
    const body = new PushBody(source());
    await readPush(body);
    expect(taken).toBe(1);
    expect(await body.more()).toBe(true);
    expect(body.ahead.toString()).toBe('PACK');
    expect(await body.more()).toBe(true);
    expect(taken).toBe(4);
    let seen = 0;
    for await (const chunk of body) {
      seen += chunk.length;
      if (seen > chunks.slice(0, 2).join('').length + 10) break;
    }
    expect(taken).toBe(14);
    expect(isEnded).toBe(true);
    await expect(body.more()).rejects.toThrow('forwarded already');
    await expect(bytesOf(body)).rejects.toThrow('forwarded once');
  });

  it('passes the error of its source', async () => {
    const source = () =>
      Readable.from(
        (function* () {
          yield Buffer.from(first(update));
          throw new Error('reset');
        })(),
      );
    await expect(readPush(new PushBody(source()))).rejects.toThrow('reset');
    await expect(bytesOf(new PushBody(source()))).rejects.toThrow('reset');
  });
});

const pushOf = (refs: readonly string[], capabilities: readonly string[]): Push => ({
  commands: refs.map((ref) => ({ ref, oldId: one, newId: two })),
  capabilities: new Set(capabilities),
});

/** The packets of an answer; those of a side band are joined by band. */
function answerOf(body: Buffer | undefined, hasBand: boolean) {
  const all = (bytes: Buffer) => readPackets(bytes, (packets) => [...packets]) ?? [];
  const packets = all(body ?? Buffer.alloc(0));
  const inBand = (band: number): Buffer =>
    Buffer.concat(
      packets.flatMap((data) =>
        typeof data !== 'string' && data[0] === band ? [data.subarray(1)] : [],
      ),
    );
  const report = hasBand ? all(inBand(1)) : packets;
  return {
    report: report.map((data) => (typeof data === 'string' ? data : data.toString())),
    message: hasBand ? inBand(2).toString() : '',
    last: packets.at(-1),
  };
}

describe('the refusal of a push', () => {
  const refs = ['refs/heads/a', 'refs/heads/b'];
  const reasons = new Map([['refs/heads/b', 'the branch is protected']]);
  const report = [
    'unpack ok\n',
    'ng refs/heads/a another reference of this push was refused\n',
    'ng refs/heads/b the branch is protected\n',
    'flush',
  ];

  it.each<[string, readonly string[], object]>([
    ['with a side band', ['report-status', 'side-band-64k'], { report, message: 'Ask first.\n' }],
    ['of version 2', ['report-status-v2', 'side-band-64k'], { report, message: 'Ask first.\n' }],
    ['without a side band', ['report-status'], { report, message: '' }],
  ])('is a report, %s', (_name, capabilities, expected) => {
    const body = refusalOf(pushOf(refs, capabilities), reasons, 'Ask first.');
    const answer = answerOf(body, capabilities.includes('side-band-64k'));
    expect(answer).toEqual({ ...expected, last: 'flush' });
  });

  it('is none where the client reads no report', () => {
    expect(refusalOf(pushOf(refs, ['side-band-64k']), reasons)).toBeUndefined();
  });

  it('has a message only where there is one', () => {
    for (const message of [undefined, '', ' \n\u{200b}'])
      expect(
        answerOf(
          refusalOf(pushOf(refs, ['report-status', 'side-band-64k']), reasons, message),
          true,
        ).message,
      ).toBe('');
  });

  it.each([
    ['\x1b[31mred\x07\x9b', '[31mred'],
    ['one\r\ntwo\0three\u{2028}four', 'one two three four'],
    ['\u{202e}abc', 'abc'],
    ['\n', 'refused'],
    ['y'.repeat(300), 'y'.repeat(300)],
    ['x'.repeat(301), `${'x'.repeat(299)}…`],
    ['😀'.repeat(400), `${'😀'.repeat(299)}…`],
    ['\u{d800}', '\u{fffd}'],
  ])('shows a reason safely: %.20j', (reason, shown) => {
    const body = refusalOf(pushOf([main], ['report-status']), new Map([[main, reason]]));
    expect(answerOf(body, false).report[1]).toBe(`ng ${main} ${shown}\n`);
  });

  it('never shows a control character or a long text, whatever it gets', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 2000, size: 'max' }),
        fc.string({ unit: 'binary', maxLength: 2000, size: 'max' }),
        (reason, message) => {
          const push = pushOf([main], ['report-status', 'side-band-64k']);
          const answer = answerOf(refusalOf(push, new Map([[main, reason]]), message), true);
          expect(answer.report).toHaveLength(3);
          const shown = (answer.report[1] ?? '').slice(`ng ${main} `.length, -1);
          expect(Array.from(shown).length).toBeLessThanOrEqual(300);
          expect(shown).toMatch(/^[^\p{Cc}\p{Cf}]+$/u);
          expect(Array.from(answer.message).length).toBeLessThanOrEqual(301);
          expect(answer.message).toMatch(/^(?:[^\p{Cc}\p{Cf}]+\n)*$/u);
        },
      ),
    );
  });

  it('is split into packets where it is long', () => {
    const many = Array.from({ length: 100 }, (_, index) => `refs/heads/${'x'.repeat(600)}${index}`);
    const push = pushOf(many, ['report-status', 'side-band-64k']);
    const body = refusalOf(push, new Map(many.map((ref) => [ref, '😀'.repeat(300)])));
    const { report: lines } = answerOf(body, true);
    expect(lines).toHaveLength(102);
    expect(body?.length).toBeGreaterThan(2 * 65_520);
  });
});

describe('the report of a host', () => {
  const refs = ['refs/heads/a', 'refs/heads/b', 'refs/for/c'];
  const band = ['report-status-v2', 'side-band-64k'];
  const line = (content: string) => packet(`${content}\n`);
  const good =
    line('unpack ok') +
    line('ok refs/heads/a') +
    line('ng refs/heads/b protected by ok refs/heads/b') +
    line('ok refs/for/c') +
    line('option refname refs/heads/other') +
    line('option forced-update') +
    line('ok refs/for/c') +
    line('ok refs/heads/unknown') +
    flush;
  const inBand = (report: string, size = 65_515): Buffer => {
    const parts = Buffer.from(report);
    const packets = Array.from({ length: Math.ceil(parts.length / size) }, (_, index) =>
      bandPackets(1, parts.subarray(index * size, (index + 1) * size)),
    );
    const progress = bandPackets(2, Buffer.from('Resolving deltas: 100%\r'));
    return Buffer.concat([...packets.flatMap((each) => [progress, each]), Buffer.from(flush)]);
  };
  const readBy = (body: Buffer, capabilities: readonly string[], each = [65_536]) => {
    const reader = new ReportReader(pushOf(refs, capabilities));
    for (let [at, index] = [0, 0]; at < body.length; index++) {
      const size = each[index % each.length] ?? 1;
      reader.push(body.subarray(at, at + size));
      at += size;
    }
    return reader;
  };
  const acceptedIn = (...given: Parameters<typeof readBy>) => [...readBy(...given).accepted];
  const expected = ['refs/heads/a', 'refs/for/c'];

  it.each<[string, string, readonly string[]]>([
    ['some accepted', good, expected],
    ['a failed pack', good.replace('000eunpack ok', '000funpack bad'), []],
    ['no result of a pack', line('ok refs/heads/a') + line('unpack ok') + flush, []],
    [
      'a failure after a success',
      line('unpack ok') + line('ok refs/heads/a') + line('ng refs/heads/a x'),
      [],
    ],
    [
      'a truncated report',
      line('unpack ok') + line('ok refs/heads/a') + line('ok refs/for/c').slice(0, -2),
      ['refs/heads/a'],
    ],
    ['a malformed packet', `${line('unpack ok')}zzzz${line('ok refs/heads/a')}`, []],
    ['a page', '<html>', []],
    ['nothing', '', []],
  ])('is read: %s', (_name, report, accepted) => {
    expect(acceptedIn(Buffer.from(report), ['report-status'])).toEqual(accepted);
    expect(acceptedIn(inBand(report), band)).toEqual(accepted);
    expect(acceptedIn(inBand(report, 3), band, [5, 1])).toEqual(accepted);
  });

  it.each<[string, string, readonly string[]]>([
    ['of a refused reference', good, ['refs/heads/b']],
    [
      'of a pack that was not unpacked',
      line('unpack index-pack failed') + refs.map((ref) => line(`ng ${ref} unpacker`)).join(''),
      refs,
    ],
    ['of an unpacked pack without a line of a reference', line('unpack ok') + flush, []],
    ['that is compressed', gzipSync(good).toString('latin1'), []],
    ['that is a page', '<html>', []],
    ['that is missing', '', []],
    [
      'of a success after a refusal',
      line('unpack ok') + line('ng refs/heads/a x') + line('ok refs/heads/a'),
      [],
    ],
  ])('proves the rejection of the references that it names: %s', (_name, report, rejected) => {
    const reader = readBy(Buffer.from(report, 'latin1'), ['report-status']);
    expect([...reader.rejected]).toEqual(rejected);
  });

  it('is read alike in whatever pieces it arrives', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 99 }), (each, size) => {
        expect(acceptedIn(Buffer.from(good), ['report-status'], each)).toEqual(expected);
        expect(acceptedIn(inBand(good, size), band, each)).toEqual(expected);
      }),
    );
  });

  it('never throws, and never accepts what is no reference of the push', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 50 }).map((each) => Buffer.from(each)),
      fc.string().map((each) => Buffer.from(line(each))),
      fc
        .constantFrom(good, flush, line('ok refs/heads/x'), line('unpack ok'))
        .map((each) => Buffer.from(each)),
      fc.constantFrom(good, line('ok refs/heads/b')).map((each) => inBand(each)),
    );
    fc.assert(
      fc.property(fc.array(bytes), sizes, fc.boolean(), (parts, each, hasBand) => {
        const accepted = acceptedIn(Buffer.concat(parts), hasBand ? band : [], each);
        expect(refs).toEqual(expect.arrayContaining(accepted));
      }),
    );
  });

  it('costs no memory, however long it is', () => {
    const reader = new ReportReader(pushOf(refs, band));
    const filler = bandPackets(1, Buffer.from(line(`ok refs/heads/${'x'.repeat(60_000)}`)));
    reader.push(inBand(line('unpack ok')).subarray(0, -4));
    const before = process.memoryUsage().arrayBuffers;
    for (let count = 0; count < 2000; count++) {
      reader.push(filler.subarray(0, 30_000));
      reader.push(filler.subarray(30_000));
    }
    reader.push(inBand(line('ok refs/heads/a')));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(50 * 1024 * 1024);
    expect([...reader.accepted]).toEqual(['refs/heads/a']);
  });
});

const folder = mkdtempSync(join(tmpdir(), 'receive-pack-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const environment = {
  PATH: process.env['PATH'],
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  ...Object.fromEntries(
    ['AUTHOR', 'COMMITTER'].flatMap((role) => [
      [`GIT_${role}_NAME`, 'test'],
      [`GIT_${role}_EMAIL`, 'test@localhost'],
    ]),
  ),
};

interface Result {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

async function git(args: readonly string[]): Promise<Result> {
  const child = spawn('git', args, { cwd: folder, env: environment });
  child.stdin.end();
  const exit = once(child, 'close') as Promise<[number | null]>;
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    exit,
  ]);
  return { code, output: output.trim(), errors };
}

/** The decision of the gateway about a push of which it has read the beginning. */
type Policy = (
  push: Push,
  unproven: readonly string[],
) => { readonly reasons: ReadonlyMap<string, string>; readonly message?: string } | undefined;

/** A gateway before `git http-backend`, which holds no pack. */
class Gateway {
  readonly #server: Server = createServer((request, response) => {
    this.#answer(request, response).catch(() => response.destroy());
  });
  policy: Policy = () => undefined;
  /** Replaces capabilities that the host offers. */
  hidden: readonly string[] = [];
  pushes: Push[] = [];
  unproven: readonly string[] = [];
  accepted: readonly string[] = [];

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/host.git`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const advertisement = await this.#backend(request, Readable.from([]), async (output) => {
        const chunks = await output.toArray();
        return Buffer.concat(chunks as Buffer[]);
      });
      const offered = this.hidden.reduce(
        (list, name) => list.replaceAll(name, 'x'.repeat(name.length)),
        advertisement.toString('latin1'),
      );
      response.setHeader('content-type', 'application/x-git-receive-pack-advertisement');
      response.end(Buffer.from(offered, 'latin1'));
      return;
    }
    const body = new PushBody(request);
    const push = await readPush(body);
    if (push.commands.length > 0) this.pushes.push(push);
    this.unproven = await unprovenUpdates(push, body);
    const refused = push.commands.length === 0 ? undefined : this.policy(push, this.unproven);
    response.setHeader('content-type', 'application/x-git-receive-pack-result');
    if (refused !== undefined) {
      const refusal = refusalOf(push, refused.reasons, refused.message);
      for await (const _chunk of body);
      if (refusal === undefined) response.writeHead(403);
      response.end(refusal);
      return;
    }
    const reader = new ReportReader(push);
    await this.#backend(request, Readable.from(body), async (output) => {
      for await (const chunk of output as AsyncIterable<Buffer>) {
        reader.push(chunk);
        response.write(chunk);
      }
    });
    this.accepted = [...reader.accepted];
    response.end();
  }

  /** Runs the host, and reads its output behind the headers of CGI. */
  async #backend<T>(
    { url = '', method = '', headers }: IncomingMessage,
    input: Readable,
    use: (output: Readable) => Promise<T>,
  ): Promise<T> {
    const { pathname, searchParams } = new URL(url, 'http://gateway');
    const child = spawn('git', ['http-backend'], {
      env: {
        ...environment,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: pathname,
        QUERY_STRING: searchParams.toString(),
        REQUEST_METHOD: method,
        CONTENT_TYPE: headers['content-type'],
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const sent = pipeline(input, child.stdin).catch(() => undefined);
    const output = Readable.from(
      (async function* () {
        let head: Buffer | undefined = Buffer.alloc(0);
        for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
          if (head === undefined) {
            yield chunk;
            continue;
          }
          head = Buffer.concat([head, chunk]);
          const end = head.indexOf('\r\n\r\n');
          if (end < 0) continue;
          yield head.subarray(end + 4);
          head = undefined;
        }
      })(),
    );
    const result = await use(output);
    await sent;
    return result;
  }
}

describe('git push', () => {
  const gateway = new Gateway();
  const work = 'work';
  const commit = (message: string) =>
    git(['-C', work, 'commit', '--quiet', '--allow-empty', '-m', message]);
  const push = (...args: readonly string[]) =>
    git(['-C', work, '-c', 'http.postBuffer=65536', 'push', gateway.url, ...args]);
  const hostHas = async (ref: string) =>
    (await git(['-C', 'host.git', 'rev-parse', '--verify', '--quiet', ref])).output;
  const localId = async (revision: string) =>
    (await git(['-C', work, 'rev-parse', revision])).output;

  beforeAll(async () => {
    await gateway.start();
    await git(['init', '--quiet', '--initial-branch=main', work]);
    await commit('one');
  });
  afterAll(() => gateway.stop());

  beforeEach(async () => {
    Object.assign(gateway, { policy: () => undefined, hidden: [] });
    rmSync(join(folder, 'host.git'), { recursive: true, force: true });
    await git(['init', '--quiet', '--bare', '--initial-branch=main', 'host.git']);
    await git(['-C', 'host.git', 'config', 'http.receivepack', 'true']);
    await git(['-C', work, 'checkout', '--quiet', '-B', 'main']);
    expect((await push('main')).code).toBe(0);
    Object.assign(gateway, { pushes: [] });
  });

  it('creates, updates, forces and deletes through the gateway', async () => {
    expect(await hostHas('main')).toBe(await localId('main'));
    await commit('two');
    expect(await push('main', 'main:refs/heads/topic/x')).toMatchObject({ code: 0 });
    expect(gateway.unproven).toEqual([]);
    expect([...gateway.accepted].sort()).toEqual([main, 'refs/heads/topic/x']);
    expect(gateway.pushes[0]?.commands).toEqual([
      { ref: main, oldId: await localId('main~1'), newId: await localId('main') },
      { ref: 'refs/heads/topic/x', oldId: zero, newId: await localId('main') },
    ]);
    await git(['-C', work, 'commit', '--quiet', '--amend', '--allow-empty', '-m', 'other']);
    expect(await push('main')).toMatchObject({ code: 1 });
    expect(await push('--force', 'main')).toMatchObject({ code: 0 });
    expect(gateway.unproven).toEqual([main]);
    expect(gateway.accepted).toEqual([main]);
    expect(await push('--delete', 'topic/x')).toMatchObject({ code: 0 });
    expect(gateway.pushes.at(-1)?.commands).toMatchObject([{ newId: zero }]);
    expect(gateway.accepted).toEqual(['refs/heads/topic/x']);
    expect(await hostHas('topic/x')).toBe('');
  });

  const refusing: Policy = () => ({
    reasons: new Map([[main, 'the branch main is protected']]),
    message: 'Push to a branch of the conversation,\nand open a pull request.',
  });

  it('shows the reason of a refusal', async () => {
    gateway.policy = refusing;
    await commit('refused');
    const { code, errors } = await push('main', 'main:other');
    expect(code).toBe(1);
    expect(errors).toMatch(/! \[remote rejected\] main -> main \(the branch main is protected\)/);
    expect(errors).toMatch(
      /! \[remote rejected\] main -> other \(another reference of this push was refused\)/,
    );
    expect(errors).toMatch(/^remote: Push to a branch of the conversation, *$/m);
    expect(errors).toMatch(/^remote: and open a pull request\. *$/m);
    expect(await hostHas('main')).not.toBe(await localId('main'));
    expect(await hostHas('other')).toBe('');
  });

  it('shows the reason without a side band', async () => {
    gateway.policy = refusing;
    gateway.hidden = ['side-band-64k', 'report-status-v2'];
    await commit('refused');
    const { code, errors } = await push('main');
    expect(code).toBe(1);
    expect(errors).toMatch(/! \[remote rejected\] main -> main \(the branch main is protected\)/);
    expect(errors).not.toMatch(/remote:/);
    expect([...(gateway.pushes[0]?.capabilities ?? [])]).toContain('report-status');
  });

  it('fails without a report', async () => {
    gateway.policy = refusing;
    gateway.hidden = ['report-status-v2', 'report-status'];
    await commit('refused');
    const { code, errors } = await push('main');
    expect(code).toBe(1);
    expect(errors).toMatch(/403/);
  });

  it('is accepted without a side band too', async () => {
    gateway.hidden = ['side-band-64k'];
    await commit('accepted');
    expect(await push('main')).toMatchObject({ code: 0 });
    expect(gateway.accepted).toEqual([main]);
  });

  it('of a shallow clone is proven, because its parents are not needed', async () => {
    await commit('two');
    await push('main');
    await git(['clone', '--quiet', '--depth=1', `file://${folder}/host.git`, 'shallow']);
    await git(['-C', 'shallow', 'commit', '--quiet', '--allow-empty', '-m', 'three']);
    expect(await git(['-C', 'shallow', 'push', gateway.url, 'main'])).toMatchObject({ code: 0 });
    expect(gateway.pushes.at(-1)?.shallow?.size).toBe(1);
    expect(gateway.unproven).toEqual([]);
  });
});
