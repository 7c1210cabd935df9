import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import type {
  AgentCommand,
  AgentCommandResult,
  AgentEndpoint,
} from '../../../../../src/agent/agent.ts';
import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import {
  gitAccessOf,
  gitAccessScript,
  gitTokenScript,
  newTokenFile,
  repositoryUrlAt,
  withoutGateway,
  type GitAccess,
} from '../../../../../src/controllers/conversation/git/git-access.ts';
import { Preparation } from '../../../../../src/controllers/conversation/start/preparation.ts';
import { cachedConversation } from '../../../../../src/resources/cached-conversation.ts';
import { gitSettingsSchema } from '../../../../../src/resources/git-settings.ts';
import { aConversation, aSandbox, aTemplate } from '../../../../support/builders.ts';
import { sceneKeys } from '../../../../support/sandbox-scene.ts';

const folder = mkdtempSync(join(tmpdir(), 'git-access-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const gatewayUrl = 'http://gateway.operator:8083/git/sbx-1/';
const hosts = {
  github: 'https://bot:s3cret@github.example:8443/git/',
  gitlab: 'https://gitlab.example',
  local: 'file:///repositories',
};
const workspace = () => mkdtempSync(join(folder, 'workspace-'));
const shop = { provider: 'github', name: 'acme/shop' };
const scriptOf = (
  repository?: GitAccess['repository'],
  from: Record<string, string> = hosts,
  readable: readonly string[] = [],
) => gitAccessScript({ gatewayUrl, repository, readable }, from);

function leave(
  cwd: string,
  repository?: GitAccess['repository'],
  source = 'gateway',
  from: Record<string, string> = hosts,
): void {
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', scriptOf(repository, from)], {
    cwd,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], CLONE_SOURCE: source },
  });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' });
}
function leaveToken(cwd: string, token = 'token'): void {
  writeFileSync(join(cwd, newTokenFile), token, { flag: 'wx' });
  execFileSync('/bin/sh', ['-c', gitTokenScript], { cwd });
}

const read = (cwd: string, name: string) => readFileSync(join(cwd, '.agent/git', name), 'utf8');
const settings = (cwd: string, ...args: readonly string[]) =>
  spawnSync('git', ['config', '--file', join(cwd, '.agent/git/config'), ...args], {
    encoding: 'utf8',
  }).stdout.trimEnd();
const valuesOf = (cwd: string, key: string) => settings(cwd, '--get-all', key).split('\n');
/** The rules that change a URL, as `new beginning < old beginning`. */
const rulesIn = (cwd: string) =>
  settings(cwd, '--get-regexp', String.raw`^url\.`)
    .split('\n')
    .flatMap((line) => {
      const [, base = '', name = '', value = ''] = /^url\.(.*)\.(\w+) (.*)$/.exec(line) ?? [];
      return base === value || base === ''
        ? []
        : [`${name} ${base.replace(gatewayUrl, '')} < ${value}`];
    });

const pushesOf = {
  github: 'pushinsteadof github/ < https://github.example:8443/git/',
  gitlab: 'pushinsteadof gitlab/ < https://gitlab.example/',
};
const fetchesOf = (name: string) => [
  `insteadof github/${name}.git < https://github.example:8443/git/${name}.git`,
  `insteadof github/${name}.git < https://github.example:8443/git/${name}`,
];

describe('the settings of git in a sandbox', () => {
  it('lead fetches of a private repository, and all pushes, to the gateway', () => {
    const cwd = workspace();
    leave(cwd, shop);
    expect(rulesIn(cwd)).toEqual([pushesOf.github, ...fetchesOf('acme/shop')]);
    expect(valuesOf(cwd, `http.${gatewayUrl}.followRedirects`)).toEqual(['false']);
    expect(valuesOf(cwd, 'push.autoSetupRemote')).toEqual(['true']);
    expect(settings(cwd, '--list').split('\n')[0]).toBe('include.path=/etc/gitconfig');
    expect(read(cwd, 'config')).not.toContain('s3cret');
  });

  it.each([
    ['a public repository', shop, 'host', [pushesOf.github]],
    ['a repository of which nothing is known', shop, '', [pushesOf.github]],
    ['a start without a repository', undefined, '', []],
    ['a provider that is not configured', { provider: 'forgejo', name: 'a/b' }, 'gateway', []],
    ['a host that is a folder', { provider: 'local', name: 'a/b' }, 'gateway', []],
    ['a name that is none', { provider: 'github', name: 'a/b" x' }, 'gateway', [pushesOf.github]],
  ])('have no more rules than needed for %s', (_what, repository, source, rules) => {
    const cwd = workspace();
    leave(cwd, repository, source);
    expect(rulesIn(cwd)).toEqual(rules);
    expect(valuesOf(cwd, `credential.${gatewayUrl}.helper`)[0]).toBe('');
  });

  it('lead fetches of the repositories that the template opens to the gateway, once', () => {
    const cwd = workspace();
    const readable = ['acme/lib', 'acme/other'];
    for (let start = 0; start < 2; start++) {
      const script = scriptOf(shop, hosts, readable);
      expect(spawnSync('/bin/sh', ['-c', script], { cwd }).status).toBe(0);
    }
    expect(rulesIn(cwd)).toEqual([pushesOf.github, ...readable.flatMap(fetchesOf)]);
  });

  it('leave out a host whose URL they can not have', () => {
    const cwd = workspace();
    leave(cwd, shop, 'gateway', {
      github: 'https://host.example/a"b\\/',
      gitlab: 'https://host.example/x y',
    });
    expect(rulesIn(cwd)).toEqual([]);
  });

  it('add up, in any order and however often, and follow a host that moves', () => {
    const cwd = workspace();
    const app = { ...shop, name: 'acme/shop-app' };
    leave(cwd, shop);
    leave(cwd, { provider: 'gitlab', name: 'group/sub/lib' }, 'host');
    leave(cwd, app);
    const all = [pushesOf.gitlab, pushesOf.github, ...fetchesOf('acme/shop')];
    for (const [repository, source] of [
      [undefined, ''],
      [app, ''],
      [app, 'gateway'],
    ] as const) {
      leave(cwd, repository, source);
      expect(rulesIn(cwd).sort()).toEqual([...all, ...fetchesOf('acme/shop-app')].sort());
    }
    leave(cwd, app, 'host');
    expect(rulesIn(cwd).sort()).toEqual([...all].sort());
    leave(cwd, undefined, '', { github: 'https://moved.example' });
    expect(rulesIn(cwd)[0]).toBe('pushinsteadof github/ < https://moved.example/');
  });

  it('have the repositories of all starts that come at once', async () => {
    const cwd = workspace();
    const names = Array.from({ length: 8 }, (_, index) => `acme/app-${index}`);
    const codes = await Promise.all(
      names.map(async (name) => {
        const child = spawn('/bin/sh', ['-c', scriptOf({ provider: 'github', name })], {
          cwd,
          env: { PATH: process.env['PATH'], CLONE_SOURCE: 'gateway' },
        });
        return ((await once(child, 'close')) as [number])[0];
      }),
    );
    expect(new Set(codes)).toEqual(new Set([0]));
    expect(rulesIn(cwd).sort()).toEqual([pushesOf.github, ...names.flatMap(fetchesOf)].sort());
  });

  it('name the credential helper, whatever the name of the working directory has', () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom(
            'a',
            ' ',
            "'",
            '"',
            '\\',
            '$',
            '`',
            '#',
            ';',
            '[',
            ']',
            '!',
            '%',
            '\u00e9',
          ),
          minLength: 1,
          maxLength: 12,
        }),
        (name) => {
          const cwd = join(workspace(), name);
          mkdirSync(cwd);
          leave(cwd, shop);
          leaveToken(cwd, 'the-token');
          const [first, helper = ''] = valuesOf(cwd, `credential.${gatewayUrl}.helper`);
          expect(first).toBe('');
          const ask = (action: string) =>
            execFileSync('/bin/sh', ['-c', `${helper.slice(1)} ${action}`], { input: 'a=b\n' });
          expect(ask('get').toString()).toBe('username=agent\npassword=the-token\n');
          expect([ask('store').length, ask('erase').length]).toEqual([0, 0]);
        },
      ),
      { numRuns: 15 },
    );
  });
});

describe('what an earlier conversation has left', () => {
  const names = [
    'config',
    'config.new',
    'credential',
    'entries',
    'entries.new',
    'token',
    'token.new',
    'lock',
  ];
  const kinds: readonly (readonly [string, (path: string, target: string) => void])[] = [
    ['a link to a file', (path, target) => symlinkSync(target, path)],
    ['a link to nothing', (path, target) => symlinkSync(`${target}-none`, path)],
    ['a link to a folder', (path, target) => symlinkSync(dirname(target), path)],
    ['a second name of a file', (path, target) => linkSync(target, path)],
    ['a pipe', (path) => void execFileSync('mkfifo', [path])],
    [
      'a folder',
      (path) => {
        mkdirSync(join(path, 'deep'), { recursive: true });
        writeFileSync(join(path, 'deep/file'), 'x');
      },
    ],
  ];

  it.each(kinds)('is replaced, and not followed: %s', (_kind, put) => {
    const cwd = workspace();
    const outside = join(cwd, 'outside');
    mkdirSync(outside);
    mkdirSync(join(cwd, '.agent/git'), { recursive: true });
    const before = names.map((name) => {
      const target = join(outside, name);
      writeFileSync(target, `of ${name}`);
      put(join(cwd, '.agent/git', name), target);
      return [name, `of ${name}`];
    });
    leave(cwd, shop);
    leaveToken(cwd);
    const after = readdirSync(outside).map((name) => [
      name,
      readFileSync(join(outside, name), 'utf8'),
    ]);
    expect(Object.fromEntries(after)).toEqual(Object.fromEntries(before));
    expect(read(cwd, 'token')).toBe('token');
    expect(rulesIn(cwd)).toEqual([pushesOf.github, ...fetchesOf('acme/shop')]);
    for (const name of ['config', 'credential', 'entries', 'token'])
      expect(lstatSync(join(cwd, '.agent/git', name))).toMatchObject({ nlink: 1, mode: 0o100600 });
    expect(lstatSync(join(cwd, '.agent/git')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(cwd, '.agent/git')).sort()).toEqual([
      'config',
      'credential',
      'entries',
      'lock',
      'token',
    ]);
  });

  it.each([
    ['a link', (path: string, target: string) => symlinkSync(target, path)],
    ['a file', (path: string) => writeFileSync(path, '')],
  ])('is replaced where it is the folder: %s', (_kind, put) => {
    const cwd = workspace();
    const outside = join(cwd, 'outside');
    mkdirSync(outside);
    mkdirSync(join(cwd, '.agent'));
    put(join(cwd, '.agent/git'), outside);
    leave(cwd, shop);
    leaveToken(cwd);
    expect([readdirSync(outside), read(cwd, 'token')]).toEqual([[], 'token']);
  });

  it('is no setting, and no rule for another host', () => {
    const cwd = workspace();
    leave(cwd, shop);
    const entries = [
      'github acme/other',
      'evil',
      'evil a/b',
      'github a/b"]\tx',
      'github ../..',
      'github a/b c/d',
      '[core]',
      '\tsshCommand = evil',
      'github "',
      '\u0001github a/c',
      '$(touch ran)',
      'x'.repeat(100_000),
    ];
    writeFileSync(join(cwd, '.agent/git/entries'), entries.join('\n'));
    writeFileSync(join(cwd, '.agent/git/config'), '[core]\n\tsshCommand = evil\n[broken');
    leave(cwd, shop, 'host');
    expect(rulesIn(cwd)).toEqual([
      pushesOf.github,
      ...fetchesOf('acme/other'),
      ...fetchesOf('../..'),
    ]);
    expect(settings(cwd, '--list')).not.toContain('evil');
    expect(existsSync(join(cwd, '.agent/git/ran'))).toBe(false);
  });

  it('does not make the settings grow without end', () => {
    const cwd = workspace();
    leave(cwd);
    const many = Array.from({ length: 5_000 }, (_, index) => `github acme/app-${index}`);
    writeFileSync(join(cwd, '.agent/git/entries'), many.join('\n'));
    leave(cwd, shop);
    const rules = rulesIn(cwd);
    expect(rules.slice(0, 3)).toEqual([pushesOf.github, ...fetchesOf('acme/shop')]);
    expect(rules).toHaveLength(1 + 2 * 49);
  });

  it('keeps the token where a start at the same time has put it in its place', () => {
    const cwd = workspace();
    leave(cwd, shop);
    leaveToken(cwd);
    expect(spawnSync('/bin/sh', ['-c', gitTokenScript], { cwd }).status).toBe(0);
    rmSync(join(cwd, '.agent/git/token'));
    expect(spawnSync('/bin/sh', ['-c', gitTokenScript], { cwd }).status).not.toBe(0);
  });
});

describe('the access of a start', () => {
  const agentSide = { url: 'http://gateway.operator:8083/', namespace: 'default' };
  const sandbox = aSandbox();
  const readable = ['acme/lib'];
  const template = aTemplate({ git: gitSettingsSchema.parse({ readable }) });
  const templates = { get: () => template };
  const accessOf = (
    repository: { name: string; provider?: 'github' | 'forgejo' } | undefined,
    more = {},
  ) =>
    gitAccessOf(
      {
        stored: cachedConversation(
          aConversation(repository === undefined ? {} : { spec: { repository } }),
        ),
        sandbox,
      },
      { agentSide, gitHosts: hosts, keys: sceneKeys, stores: { templates }, ...more },
    );
  const token = sceneKeys.gitToken(sandbox.metadata.uid);

  it.each([
    [
      'a repository',
      accessOf({ name: 'acme/shop' }),
      { gatewayUrl, token, repository: shop, readable },
    ],
    ['no repository', accessOf(undefined), { gatewayUrl, token, repository: undefined, readable }],
    [
      'a host that is a folder',
      accessOf({ name: 'a/b' }, { gitHosts: { local: 'file:///x' } }),
      { gatewayUrl, token, repository: undefined, readable },
    ],
    [
      'a provider that is not configured',
      accessOf({ name: 'a/b', provider: 'forgejo' }),
      { gatewayUrl, token, repository: undefined, readable },
    ],
    ['no gateway', accessOf({ name: 'a/b' }, { agentSide: undefined }), undefined],
    [
      'a gateway of another namespace',
      accessOf({ name: 'a/b' }, { agentSide: { ...agentSide, namespace: 'another' } }),
      undefined,
    ],
  ])('with %s', (_what, access, expected) => {
    expect(access).toEqual(expected);
  });

  it('has the same URL of a repository as the settings', () => {
    expect(repositoryUrlAt({ gatewayUrl }, shop)).toBe(`${gatewayUrl}github/acme/shop.git`);
  });
});

describe('the output of a step', () => {
  it('has the URLs of the hosts', () => {
    const output = `To ${gatewayUrl}github/acme/shop.git\nTo ${gatewayUrl}gitlab/a/b.git\n`;
    expect(withoutGateway(output, { gatewayUrl }, hosts)).toBe(
      'To https://github.example:8443/git/acme/shop.git\nTo https://gitlab.example/a/b.git\n',
    );
  });

  it('never has the address of the gateway', () => {
    const part = fc.constantFrom(
      gatewayUrl,
      'gateway.operator',
      'gateway.operator:8083',
      'github/',
      'local/',
      ' ',
      'fatal: unable to access ',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const shown = withoutGateway(parts.join(''), { gatewayUrl }, hosts);
        expect(shown).not.toContain('gateway.operator');
      }),
    );
  });
});

describe('the preparation of a repository', () => {
  /** An agent whose shell is that of this machine. */
  class ShellAgent extends OpenHandsClient {
    readonly commands: string[] = [];
    readonly written: (readonly [string, string])[] = [];
    readonly #cwd: string;
    failing: string | undefined;

    constructor(cwd: string) {
      super();
      this.#cwd = cwd;
    }

    override execute = (
      _endpoint: AgentEndpoint,
      { command }: AgentCommand,
    ): Promise<AgentCommandResult> => {
      this.commands.push(command);
      const program = command === this.failing ? 'echo broken >&2; exit 1' : command;
      const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', program], {
        cwd: this.#cwd,
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], HOME: this.#cwd },
      });
      return Promise.resolve({ exitCode: status ?? -1, stdout, stderr, timedOut: false });
    };
    override writeFile = (_endpoint: AgentEndpoint, path: string, text: string): Promise<void> => {
      this.written.push([path, text]);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      return Promise.resolve();
    };
  }

  const endpoint = { baseUrl: 'http://127.0.0.1:1', sessionKey: 'key' };
  const conversation = cachedConversation(
    aConversation({ spec: { repository: { name: 'acme/shop' } } }),
  );
  const git: GitAccess = { gatewayUrl, token: 'the-git-token', repository: shop, readable: [] };
  const { signal } = new AbortController();
  const sceneOf = () => {
    const cwd = workspace();
    const agent = new ShellAgent(cwd);
    const preparation = new Preparation({
      agent,
      gitHosts: hosts,
      cloneTimeoutSeconds: 60,
      setupTimeoutSeconds: 60,
      maxRepositoryMebibytes: 100,
    });
    mkdirSync(join(cwd, 'project/.openhands'), { recursive: true });
    const project = join(cwd, 'project');
    execFileSync('git', ['init', '--quiet', project]);
    const url = 'https://github.example:8443/git/acme/shop.git';
    execFileSync('git', ['-C', project, 'remote', 'add', 'origin', url]);
    return { cwd, agent, preparation, project };
  };
  const clone = (preparation: Preparation, access: GitAccess | undefined = git) =>
    preparation.clone(conversation, endpoint, {
      isRunning: false,
      access: { gatewayUrl: repositoryUrlAt(git, shop), ticket: 'the-ticket' },
      git: access,
      signal,
    });

  it('leaves the token in a file, and in no command', async () => {
    const { cwd, agent, preparation } = sceneOf();
    for (let each = 0; each < 2; each += 1)
      expect(await clone(preparation)).toMatchObject({ failure: undefined });
    expect(read(cwd, 'token')).toBe('the-git-token');
    expect(rulesIn(cwd)).toEqual([pushesOf.github]);
    expect(agent.commands.join('\n')).not.toContain('the-git-token');
    expect(agent.written.map(([path]) => path)).toContain(join(cwd, newTokenFile));
  });

  it('leaves no token where there is no gateway, and none for a host that is a folder', async () => {
    for (const access of [undefined, { ...git, repository: undefined }]) {
      const { cwd, agent, preparation } = sceneOf();
      await preparation.clone(conversation, endpoint, {
        isRunning: false,
        access: undefined,
        git: access,
        signal,
      });
      expect(agent.written).toEqual([]);
      expect(existsSync(join(cwd, '.agent/git/config'))).toBe(access !== undefined);
      if (access !== undefined) expect(rulesIn(cwd)).toEqual([]);
    }
  });

  it('fails, and does not say the token, where the sandbox can not store it', async () => {
    const { agent, preparation } = sceneOf();
    agent.failing = gitTokenScript;
    await expect(clone(preparation)).rejects.toThrow(
      /^The token for git could not be stored: broken$/,
    );
  });

  it('hides the gateway in the output of the set-up', async () => {
    const { preparation, project } = sceneOf();
    writeFileSync(
      join(project, '.openhands/setup.sh'),
      `echo "fatal: unable to access '${gatewayUrl}github/acme/shop.git': gateway.operator"; exit 3`,
    );
    const { report, failure } = await preparation.setUp(conversation, endpoint, {
      isRunning: false,
      identity: undefined,
      git,
      signal,
    });
    for (const text of [report.output, failure?.message])
      expect(text).toContain("access 'https://github.example:8443/git/acme/shop.git': the gateway");
  });

  it('keeps the settings of the image for a conversation without a repository', async () => {
    const { cwd, preparation } = sceneOf();
    const path = await preparation.prepareWorkspace(
      endpoint,
      { ...git, repository: undefined },
      signal,
    );
    expect(path).toBe(join(cwd, 'project'));
    expect(valuesOf(cwd, 'include.path')).toEqual(['/etc/gitconfig']);
    expect(rulesIn(cwd)).toEqual([]);
  });

  it('makes the folder of a conversation even where the settings can not be written', async () => {
    const { cwd, preparation } = sceneOf();
    writeFileSync(join(cwd, '.agent'), '');
    expect(await preparation.prepareWorkspace(endpoint, git, signal)).toBe(join(cwd, 'project'));
  });
});
