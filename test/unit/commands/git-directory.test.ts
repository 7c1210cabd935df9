import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileNameOf } from '../../../src/commands/credential-files.ts';
import {
  gitCredentials,
  mountedGitCredentials,
  secretsOf,
} from '../../../src/commands/git-directory.ts';
import { directly } from '@conversation-operator/outward/outward';
import { systemClock } from '@conversation-operator/base/clock';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { recordingLogger } from '../../support/recording-logger.ts';

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

it.each([
  ['alice', 'alice'],
  ['team-a.b', 'team-a.b'],
  ['alice@example.com', 'alice_40example.com'],
  ['a_40b', 'a_5f40b'],
  ['a+b:c', 'a_2bb_3ac'],
  ['../x', '.._2fx'],
  ['é', '_c3_a9'],
])('the credential of %s is in a file that ends with %s', (owner, expected) => {
  expect(fileNameOf(owner)).toBe(expected);
});

it.each([
  ['a user and a password', 'bot:p4ss:word\n', 'forgejo', 'bot', 'p4ss:word'],
  ['a token of GitHub', 'ghp_x\n', 'github', 'x-access-token', 'ghp_x'],
  ['a token of GitLab', 'glpat-x', 'gitlab', 'oauth2', 'glpat-x'],
  ['a token of another host', '  x\r\n', 'forgejo', 'token', 'x'],
])('a file with %s', (_name, text, provider, user, token) => {
  expect(secretsOf(text, provider)).toEqual({ authorization: basic(`${user}:${token}`), token });
});

it.each([
  ['nothing', '\n'],
  ['two lines', 'a\nb'],
  ['a header in disguise', 'x\r\nX-Evil: 1'],
  ['something huge', 'x'.repeat(8193)],
])('a file with %s is of no use', (_name, text) => {
  expect(secretsOf(text, 'github')).toBeUndefined();
});

describe('mounted credentials', () => {
  let folder: string;
  const { logger, lines } = recordingLogger();
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const mounted = () =>
    mountedGitCredentials({ folder, providers: ['github', 'gitlab', '../x'], logger });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'git-credentials-'));
    lines.length = 0;
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("are an owner's own before everybody's, and each provider's apart", async () => {
    write('github', 'everybody');
    write('github.alice', 'alice:secret');
    const credentials = mounted();
    expect(await credentials.of('alice', 'github')).toEqual({
      authorization: basic('alice:secret'),
      token: 'secret',
      name: 'github.alice',
    });
    expect(await credentials.of('bob', 'github')).toEqual({
      authorization: basic('x-access-token:everybody'),
      token: 'everybody',
      name: 'github',
    });
    expect(await credentials.of('alice', 'gitlab')).toBeUndefined();
    expect(await credentials.of('alice', 'bitbucket')).toBeUndefined();
    expect(await credentials.of('alice', '../x')).toBeUndefined();
    expect(await credentials.of('x'.repeat(300), 'github')).toMatchObject({ name: 'github' });
  });

  it('are read again when they change, come or go', async () => {
    const credentials = mounted();
    expect(await credentials.of('alice', 'github')).toBeUndefined();
    write('github', 'first');
    expect(await credentials.of('alice', 'github')).toMatchObject({
      authorization: basic('x-access-token:first'),
    });
    write('github', 'second');
    expect(await credentials.of('alice', 'github')).toMatchObject({
      authorization: basic('x-access-token:second'),
    });
    rmSync(join(folder, 'github'));
    expect(await credentials.of('alice', 'github')).toBeUndefined();
  });

  it("that can't be used are no reason to use everybody's; it is said once, without what they hold", async () => {
    write('github', 'everybody');
    write('github.alice', 'two\nsecret lines');
    mkdirSync(join(folder, 'github.bob'));
    const credentials = mounted();
    for (const owner of ['alice', 'alice', 'bob', 'bob'])
      expect(await credentials.of(owner, 'github')).toBeUndefined();
    expect(lines.map(({ level, fields }) => [level, fields['credential']])).toEqual([
      ['error', 'github.alice'],
      ['error', 'github.bob'],
    ]);
    expect(JSON.stringify(lines)).not.toContain('secret');
  });

  it('for a host that is not configured are reported at the start, certificates beside them not', () => {
    write('gitub.alice', 'x');
    write('ca.crt', '-----BEGIN CERTIFICATE-----');
    write('..data', 'of the mount');
    mounted();
    expect(lines).toEqual([
      {
        level: 'warn',
        message: 'a git credential is for none of the git hosts',
        fields: { credential: 'gitub.alice' },
      },
    ]);
  });

  it('count before the users in the URLs of hosts, and are not replaced by these', async () => {
    await using stack = new AsyncDisposableStack();
    write('github', 'everybody');
    write('github.alice', 'two\nsecret lines');
    const hosts = {
      github: 'https://bot:p%40ss@github.example',
      gitlab: 'https://t0ken@gitlab.example',
      forgejo: 'https://forgejo.example',
    };
    const config = readGatewayConfig({
      GIT_HOSTS: JSON.stringify(hosts),
      GIT_CREDENTIALS_DIR: folder,
      MASTER_KEY_FILES: 'x',
    });
    const credentials = gitCredentials(
      config,
      { clock: systemClock, logger, outward: directly },
      stack,
    );
    expect(await credentials.of('bob', 'github')).toMatchObject({ token: 'everybody' });
    expect(await credentials.of('alice', 'github')).toBeUndefined();
    rmSync(join(folder, 'github'));
    expect(await credentials.of('bob', 'github')).toEqual({
      authorization: basic('bot:p@ss'),
      token: 'p@ss',
      name: 'in the URL',
    });
    expect(await credentials.of('alice', 'github')).toBeUndefined();
    expect(await credentials.of('bob', 'gitlab')).toMatchObject({
      authorization: basic('t0ken:'),
      token: 't0ken',
    });
    for (const provider of ['forgejo', 'constructor', 'bitbucket'])
      expect(await credentials.of('bob', provider)).toBeUndefined();
  });

  it('need their folder at the start', () => {
    expect(() =>
      mountedGitCredentials({ folder: join(folder, 'none'), providers: [], logger }),
    ).toThrow(/GIT_CREDENTIALS_DIR: .*none can't be read \(ENOENT\)/);
  });
});
