import fc from 'fast-check';
import { readAdvertisement, readPlainHead, listRequest, readList } from '../src/advertisement.ts';
import { delimiter, flush, packet } from '../src/pkt-line.ts';

const smart = 'application/x-git-upload-pack-advertisement';
const [one, two] = ['1'.repeat(40), '2'.repeat(40)];
const long = 'a'.repeat(64);
const service = packet('# service=git-upload-pack\n') + flush;
const first = (reference: string, capabilities = 'multi_ack agent=git/2') =>
  packet(`${reference}\0${capabilities}\n`);
const line = (text: string) => packet(`${text}\n`);
const branch = (name: string, commitSha = one) => ({ name, commitSha });
const read = (body: string | Buffer, type = smart) => readAdvertisement(Buffer.from(body), type);
const refs = (defaultBranch: string | undefined, ...branches: readonly object[]) => ({
  kind: 'refs',
  refs: { branches, defaultBranch },
  isPlain: false,
});

describe('the answer to info/refs', () => {
  it.each<[string, string, object]>([
    [
      'version 0 with a symbolic HEAD',
      service +
        first(`${one} HEAD`, 'ofs-delta symref=HEAD:refs/heads/trunk agent=x') +
        line(`${one} refs/heads/a`) +
        line(`${one} refs/heads/trunk`) +
        flush,
      refs('trunk', branch('a'), branch('trunk')),
    ],
    [
      'version 0 with symbolic branches beside HEAD',
      service +
        first(
          `${one} HEAD`,
          'symref=HEAD:refs/heads/trunk symref=refs/heads/latest:refs/heads/a symref=X:refs/heads/a',
        ) +
        line(`${one} refs/heads/a`) +
        line(`${one} refs/heads/trunk`) +
        flush,
      refs('trunk', branch('a'), branch('trunk')),
    ],
    [
      'version 0 of an old host, which does not say what HEAD is: main, of those with its commit',
      service +
        first(`${one} HEAD`) +
        line(`${one} refs/heads/a`) +
        line(`${one} refs/heads/main`) +
        line(`${two} refs/heads/master`) +
        flush,
      refs('main', branch('a'), branch('main'), branch('master', two)),
    ],
    [
      'version 0 with a HEAD that is no branch of a usual name',
      service +
        first(`${two} HEAD`) +
        line(`${one} refs/heads/main`) +
        line(`${two} refs/heads/x`) +
        flush,
      refs('x', branch('main'), branch('x', two)),
    ],
    [
      'version 0 without the line of the service',
      first(`${one} refs/heads/main`) + flush,
      refs(undefined, branch('main')),
    ],
    [
      'version 0 with tags, pull requests and what is shallow',
      service +
        first(`${one} refs/heads/main`) +
        line(`${two} refs/pull/1/head`) +
        line(`${two} refs/tags/v1`) +
        line(`${two} refs/tags/v1^{}`) +
        line(`shallow ${two}`) +
        flush,
      refs(undefined, branch('main')),
    ],
    [
      'version 0 without commits',
      service + first(`${'0'.repeat(40)} capabilities^{}`) + flush,
      refs(undefined),
    ],
    [
      'version 0 with SHA-256',
      service +
        first(`${long} HEAD`, 'symref=HEAD:refs/heads/main') +
        line(`${long} refs/heads/main`) +
        flush,
      refs('main', branch('main', long)),
    ],
    [
      'version 1',
      service +
        line('version 1') +
        first(`${one} HEAD`, 'symref=HEAD:refs/heads/main') +
        line(`${one} refs/heads/main`) +
        flush,
      refs('main', branch('main')),
    ],
    [
      'names that no start accepts, left out',
      service +
        first(`${one} refs/heads/-x`) +
        line(`${one} refs/heads/a b`) +
        line(`${one} refs/heads/ok`) +
        flush,
      refs(undefined, branch('ok')),
    ],
    [
      'version 2',
      service +
        line('version 2') +
        line('agent=git/2.39') +
        line('ls-refs=unborn') +
        line('fetch=shallow') +
        line('object-format=sha1') +
        flush,
      { kind: 'capabilities', capabilities: { objectFormat: 'sha1', unborn: true } },
    ],
    [
      'version 2 of an old host',
      line('version 2') + line('ls-refs') + flush,
      { kind: 'capabilities', capabilities: { objectFormat: undefined, unborn: false } },
    ],
    [
      'version 2 with nonsense for a format',
      line('version 2') + line('object-format=\n0000') + flush,
      { kind: 'capabilities', capabilities: { objectFormat: undefined, unborn: false } },
    ],
    [
      'a refusal because of the name',
      service + packet('ERR Repository not found'),
      { kind: 'refused', isAboutAccess: true },
    ],
    [
      'a refusal because of the access',
      packet('ERR access denied or repository not exported: /x'),
      { kind: 'refused', isAboutAccess: true },
    ],
    [
      'a refusal because of something else',
      packet('ERR we are upgrading'),
      { kind: 'refused', isAboutAccess: false },
    ],
    [
      'a list truncated in the middle of a packet',
      service + first(`${one} refs/heads/a`) + line(`${one} refs/heads/b`).slice(0, -9),
      refs(undefined, branch('a')),
    ],
    [
      'a list truncated before the default branch',
      service +
        first(`${two} HEAD`, 'symref=HEAD:refs/heads/trunk') +
        line(`${one} refs/heads/a`) +
        '00',
      refs('trunk', branch('trunk', two), branch('a')),
    ],
    [
      'a list truncated in the middle of a length',
      service + first(`${one} refs/heads/a`) + '00',
      refs(undefined, branch('a')),
    ],
  ])('is understood: %s', (_name, body, expected) => {
    expect(read(body)).toEqual(expected);
  });

  it.each<[string, string, string?]>([
    ['nothing', ''],
    ['the line of the service alone', service],
    ['a first packet that was truncated', service + first(`${one} HEAD`).slice(0, 20)],
    ['a length that is no number', 'zzzz'],
    ['a length with a sign', '+00a12345678'],
    ['a length of three', '0003'],
    ['a length beyond what git allows', `ffff${'x'.repeat(0xffff)}`],
    ['no length after good ones', service + first(`${one} refs/heads/a`) + 'nope'],
    ['no reference', service + line('hello world')],
    ['one word', service + line('hello')],
    ['a commit of the wrong length', service + first('123 refs/heads/main')],
    ['a version that there is not', line('version 3')],
    ['a page instead', '<html>Log in</html>'],
    ['a page as what it is', '<html>Log in</html>', 'text/html; charset=utf-8'],
    ['a page as text', 'Log in\n', 'text/plain'],
    ['JSON', '{"a":1}\n', 'application/json'],
    ['an empty file', '', 'text/plain'],
  ])('says nothing when it is %s', (...[, body, type]) => {
    expect(read(body, type)).toEqual({ kind: 'unreadable' });
  });

  it.each([
    ['as text', 'text/plain; charset=utf-8'],
    ['without a type', ''],
  ])('may be the list of a host that only serves files, %s', (_name, type) => {
    expect(
      read(
        `${one}\trefs/heads/main\n${two}\trefs/heads/x\n${two}\trefs/tags/v1\n${two}\trefs/heads/rest`,
        type,
      ),
    ).toEqual({
      kind: 'refs',
      refs: { branches: [branch('main'), branch('x', two)], defaultBranch: undefined },
      isPlain: true,
    });
  });

  it('is read to its end when it is huge', () => {
    const many = Array.from({ length: 30_000 }, (_, index) =>
      line(`${one} refs/heads/topic/number-${index}`),
    );
    const found = read(service + first(`${one} HEAD`) + many.join(''));
    expect(found).toMatchObject({ kind: 'refs', refs: { branches: { length: 30_000 } } });
  });

  it('never throws, whatever comes', () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(
          flush,
          delimiter,
          '0002',
          service,
          line('version 2'),
          first(`${one} HEAD`),
          line(`${one} refs/heads/a`),
        )
        .map((text) => Buffer.from(text)),
      fc.string().map((text) => Buffer.from(packet(text))),
    );
    fc.assert(
      fc.property(fc.array(piece), fc.constantFrom(smart, 'text/plain', ''), (pieces, type) => {
        const body = Buffer.concat(pieces);
        readAdvertisement(body, type);
        readList(body, 'a');
      }),
    );
  });
});

describe('the list of version 2', () => {
  it.each<[string, string, object | undefined]>([
    [
      'HEAD and branches',
      line(`${one} HEAD symref-target:refs/heads/main`) +
        line(`${one} refs/heads/main`) +
        line(`${two} refs/heads/x`) +
        flush,
      { defaultBranch: 'main', branches: [branch('main'), branch('x', two)] },
    ],
    [
      'a symbolic branch beside HEAD',
      line(`${one} HEAD symref-target:refs/heads/main`) +
        line(`${one} refs/heads/latest symref-target:refs/heads/x`) +
        line(`${one} refs/heads/main`) +
        flush,
      { defaultBranch: 'main', branches: [branch('latest'), branch('main')] },
    ],
    [
      'branches of which a symbolic one is no HEAD',
      line(`${one} refs/heads/latest symref-target:refs/heads/x`) +
        line(`${two} refs/heads/x`) +
        flush,
      { defaultBranch: undefined, branches: [branch('latest'), branch('x', two)] },
    ],
    [
      'a repository without commits',
      line('unborn HEAD symref-target:refs/heads/trunk') + flush,
      { defaultBranch: 'trunk', branches: [] },
    ],
    ['nothing at all', flush, { defaultBranch: undefined, branches: [] }],
    [
      'a list that was truncated',
      line(`${one} refs/heads/main`) + '003',
      { defaultBranch: undefined, branches: [branch('main')] },
    ],
    ['no answer', '', undefined],
    ['an error', packet('ERR no'), undefined],
    ['a page', '<html></html>', undefined],
  ])('with %s', (_name, body, expected) => {
    expect(readList(Buffer.from(body))).toEqual(expected);
  });

  it('has one name among those that begin with it, and may be asked for these alone', () => {
    expect(listRequest({ objectFormat: undefined, unborn: true }, 'ünï')).toContain(
      packet('ref-prefix refs/heads/ünï\n') + packet('ref-prefix refs/tags/ünï\n') + flush,
    );
    const list =
      line(`${one} refs/heads/v1-old`) + line(`${two} refs/tags/v1 peeled:${one}`) + flush;
    for (const [name, isThere] of [
      ['v1', true],
      ['v1-old', true],
      ['v', false],
      ['tags/v1', false],
    ] as const)
      expect(readList(Buffer.from(list), name)).toMatchObject({ hasNamed: isThere });
  });

  it('is asked for in the format of the repository', () => {
    expect(listRequest({ objectFormat: 'sha256', unborn: true })).toBe(
      '0014command=ls-refs\n0019object-format=sha256\n' +
        '0001' +
        '000csymrefs\n' +
        '000bunborn\n' +
        '0014ref-prefix HEAD\n001bref-prefix refs/heads/\n0000',
    );
    expect(listRequest({ objectFormat: undefined, unborn: false })).not.toMatch(
      /object-format|unborn/,
    );
  });
});

it.each<[string, string | undefined]>([
  ['ref: refs/heads/main\n', 'main'],
  ['ref: refs/heads/topic/x', 'topic/x'],
  [`${one}\n`, undefined],
  ['<html>', undefined],
  ['ref: refs/heads/-x\n', undefined],
])('HEAD as a file, %j, means %s', (text, expected) => {
  expect(readPlainHead(text)).toBe(expected);
});
