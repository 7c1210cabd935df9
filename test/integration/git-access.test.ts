import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  gitAccessScript,
  gitTokenScript,
  newTokenFile,
} from '../../src/controllers/conversation/git/git-access.ts';
import { forwardProxy } from '../support/forward-proxy.ts';
import { GitServer } from '../support/git-server.ts';
import { repositoryOf } from '../support/git-tree.ts';
import { runClone } from '../support/run-clone.ts';

const folder = mkdtempSync(join(tmpdir(), 'git-access-'));
const token = 'token-of-the-sandbox';
const path = '/git/sbx-1/forgejo/';
const source = repositoryOf(folder, { 'README.md': 'hello\n' });
const served = join(folder, 'served');
execFileSync('git', ['clone', '--quiet', '--bare', source, join(served, 'acme/shop.git')]);

interface Request {
  readonly what: string;
  readonly authorization: string | undefined;
}
const requests: Request[] = [];
const basic = `Basic ${Buffer.from(`agent:${token}`).toString('base64')}`;

/** Answers like the gateway: clone tickets are for reading, the git token is for all. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://gateway');
  const { authorization } = request.headers;
  const what = searchParams.get('service') ?? pathname.split('/').at(-1) ?? '';
  requests.push({ what: `${pathname.slice(path.length).split('.git')[0]} ${what}`, authorization });
  if (!pathname.startsWith(`${path}acme/shop.git/`)) {
    response.writeHead(404).end();
  } else if (authorization === undefined) {
    response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
  } else if (
    authorization !== basic &&
    (authorization !== 'Bearer ticket' || what === 'git-receive-pack')
  ) {
    response.writeHead(403).end();
  } else {
    serve(request, response, { pathname, query: searchParams.toString() });
  }
}

function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { pathname, query }: { readonly pathname: string; readonly query: string },
): void {
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: served,
      GIT_HTTP_EXPORT_ALL: '1',
      REMOTE_USER: 'agent',
      PATH_INFO: `/${pathname.slice(path.length)}`,
      QUERY_STRING: query,
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'],
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  request.pipe(child.stdin);
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.once('close', () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf('\r\n\r\n');
    for (const line of output.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(': ');
      response.setHeader(name, value);
    }
    response.end(output.subarray(end + 4));
  });
}

const gateway = createServer(answer);
let gatewayUrl: string;
let host: GitServer;
beforeAll(async () => {
  gateway.listen(0, '127.0.0.1');
  await once(gateway, 'listening');
  gatewayUrl = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}/git/sbx-1/`;
  host = await GitServer.start({
    prefix: '/scm',
    repositories: {
      'acme/shop': { from: source },
      'acme/shop-2': { from: source },
      'acme/shop.github.io': { from: source },
      'acme/open': { from: source },
    },
    readers: { 'acme/shop': ['another:user'] },
  });
});
beforeEach(() => {
  requests.splice(0);
  host.taken();
});
afterAll(async () => {
  gateway.closeAllConnections();
  gateway.close();
  await host.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Prepares a workspace with the repository as a start of the operator does. */
async function prepared(name = 'acme/shop', env: Readonly<Record<string, string>> = {}) {
  const result = await runClone(folder, {
    name,
    env,
    from: host.url,
    through: `${gatewayUrl}forgejo`,
    accessScript: gitAccessScript(
      { gatewayUrl, repository: { provider: 'forgejo', name }, readable: [] },
      { forgejo: host.url },
    ),
  });
  expect(result).toMatchObject({ code: 0, isThere: true });
  const workspace = dirname(result.project);
  writeFileSync(join(workspace, newTokenFile), token);
  execFileSync('/bin/sh', ['-c', gitTokenScript], { cwd: workspace });
  requests.splice(0);
  host.taken();
  return { workspace, project: result.project };
}

/** Runs git in the project of the agent; returns its output, and its trace with all commands. */
async function git(workspace: string, ...args: readonly string[]) {
  return gitWith({}, workspace, ...args);
}

async function gitWith(
  env: Readonly<Record<string, string>>,
  workspace: string,
  ...args: readonly string[]
) {
  const child = spawn('git', args, {
    cwd: join(workspace, 'project'),
    env: {
      PATH: process.env['PATH'],
      HOME: workspace,
      GIT_CONFIG_SYSTEM: join(workspace, '.agent/git/config'),
      GIT_TERMINAL_PROMPT: '0',
      GIT_TRACE: '1',
      LC_ALL: 'C',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  return { code, stdout: stdout.trim(), stderr };
}

async function commit(workspace: string, message: string): Promise<void> {
  const user = ['-c', 'user.name=t', '-c', 'user.email=t@localhost'];
  await git(workspace, ...user, 'commit', '--quiet', '--allow-empty', '-m', message);
}

it('a shell fetches and pushes through the gateway, by the token and by nothing else', async () => {
  const { workspace, project } = await prepared();
  await git(workspace, 'checkout', '--quiet', '-b', 'work');
  await commit(workspace, 'work');
  const push = await git(workspace, 'push');
  const fetched = await git(workspace, 'fetch', '--quiet', 'origin');
  expect([push.code, fetched.code]).toEqual([0, 0]);
  expect(host.taken()).toEqual([]);
  expect(new Set(requests.map(({ authorization }) => authorization))).toEqual(
    new Set([undefined, basic]),
  );
  expect(new Set(requests.map(({ what }) => what))).toEqual(
    new Set(['acme/shop git-receive-pack', 'acme/shop git-upload-pack']),
  );
  const pushed = execFileSync('git', ['-C', join(served, 'acme/shop.git'), 'rev-parse', 'work']);
  expect(pushed.toString().trim()).toBe((await git(workspace, 'rev-parse', 'HEAD')).stdout);

  const settings = readFileSync(join(project, '.git/config'), 'utf8');
  expect(settings).toContain(`url = ${host.url}/acme/shop.git\n`);
  expect(settings).not.toContain(gatewayUrl);
  // The trace has the arguments of every process that git has started.
  expect(push.stderr).toMatch(/trace: run_command: .*\/credential\S* get/);
  const list = await git(workspace, 'config', '--list', '--show-origin');
  expect(list.stdout).toContain('push.autosetupremote=true');
  const shown = [push, fetched, list].map(({ stdout, stderr }) => stdout + stderr).join('\n');
  expect(shown).not.toContain(token);
});

it('git sends nothing for the gateway to a proxy, which has the requests for the host', async () => {
  const proxy = await forwardProxy();
  try {
    const env = { http_proxy: proxy.url, NO_PROXY: '.svc', no_proxy: '.svc' };
    const { workspace } = await prepared('acme/shop', env);
    await git(workspace, 'checkout', '--quiet', '-b', 'past-the-proxy');
    await commit(workspace, 'work');
    const push = await gitWith(env, workspace, 'push');
    const fetched = await gitWith(env, workspace, 'fetch', '--quiet', 'origin');
    expect([push.code, fetched.code]).toEqual([0, 0]);
    expect(requests.length).toBeGreaterThan(0);
    expect(proxy.asked).toEqual([]);
    const open = await gitWith(env, workspace, 'ls-remote', `${host.url}/acme/open.git`);
    expect(open.code).toBe(0);
    expect(proxy.asked.length).toBeGreaterThan(0);
    expect(proxy.asked.join('\n')).not.toContain(gatewayUrl);
  } finally {
    await proxy.close();
  }
});

it.each(['', '.git', '/'])(
  'a shell fetches from the URL of the host that ends with "%s"',
  async (end) => {
    const { workspace } = await prepared();
    const { code } = await git(workspace, 'ls-remote', `${host.url}/acme/shop${end}`);
    expect(code).toBe(0);
    expect(requests.at(-1)).toMatchObject({ authorization: basic });
  },
);

it.each(['acme/shop-2.git', 'acme/shop-2', 'acme/shop.github.io.git', 'acme/open.git'])(
  'a shell fetches %s from its host, and without the token',
  async (name) => {
    const { workspace } = await prepared();
    const { stderr } = await git(workspace, 'ls-remote', `${host.url}/${name}`);
    expect(requests).toEqual([]);
    const [asked] = host.taken();
    expect({ ...asked, stderr }).toMatchObject({
      url: `/scm/${name}/info/refs?service=git-upload-pack`,
      authorization: undefined,
    });
  },
);

it('a public repository is fetched from its host, and pushed through the gateway', async () => {
  const { workspace } = await prepared('acme/open');
  expect((await git(workspace, 'fetch', '--quiet', 'origin')).code).toBe(0);
  expect([host.taken().length > 0, requests]).toEqual([true, []]);
  const { stdout } = await git(workspace, 'remote', 'get-url', '--push', 'origin');
  expect(stdout).toBe(`${gatewayUrl}forgejo/acme/open.git`);
  await commit(workspace, 'work');
  expect((await git(workspace, 'push')).code).not.toBe(0);
  expect(requests.map(({ what }) => what)).toEqual(['acme/open git-receive-pack']);
  expect(host.taken()).toEqual([]);
});

it('the credential of a shell goes to its own sandbox of the gateway alone', async () => {
  const { workspace } = await prepared();
  const fill = (url: string) =>
    execFileSync('git', ['credential', 'fill'], {
      cwd: workspace,
      input: `url=${url}\n\n`,
      env: {
        PATH: process.env['PATH'],
        HOME: workspace,
        GIT_CONFIG_SYSTEM: join(workspace, '.agent/git/config'),
        GIT_TERMINAL_PROMPT: '0',
        GIT_ASKPASS: 'true',
      },
    }).toString();
  expect(fill(`${gatewayUrl}forgejo/acme/shop.git`)).toContain(`\npassword=${token}\n`);
  for (const url of [
    gatewayUrl.replace('sbx-1', 'sbx-2'),
    gatewayUrl.replace('sbx-1', 'sbx-11'),
    gatewayUrl.replace('127.0.0.1', 'localhost'),
    `${host.url}/acme/shop.git`,
  ])
    expect(fill(url)).not.toContain(token);
});

it('git takes no notice of the settings while they are absent', async () => {
  const { workspace } = await prepared();
  rmSync(join(workspace, '.agent'), { recursive: true });
  const { code, stdout } = await git(workspace, 'config', '--list', '--name-only');
  expect({ code, has: stdout.includes('remote.origin.url') }).toEqual({ code: 0, has: true });
  expect(stdout).not.toContain('pushinsteadof');
});

describe('a start in a sandbox that has a project already', () => {
  const start = async (name: string, workspace: string) => {
    const accessScript = gitAccessScript(
      { gatewayUrl, repository: { provider: 'forgejo', name }, readable: [] },
      { forgejo: host.url },
    );
    return runClone(folder, {
      name,
      from: host.url,
      through: `${gatewayUrl}forgejo`,
      accessScript,
      before: (next) => {
        for (const each of ['project', '.agent/git'])
          execFileSync('cp', ['-R', join(workspace, each), join(next, each)]);
      },
    });
  };

  it('with the same repository asks for nothing, and keeps the settings', async () => {
    const { workspace } = await prepared();
    const next = await start('acme/shop', workspace);
    expect(next.code).toBe(0);
    expect([requests, host.taken()]).toEqual([[], []]);
    expect(readFileSync(join(dirname(next.project), '.agent/git/entries'), 'utf8')).toBe(
      'forgejo\nforgejo acme/shop\n',
    );
  });

  it('with a private repository adds it', async () => {
    const { workspace } = await prepared('acme/open');
    const next = await start('acme/shop', workspace);
    expect(next.code).toBe(0);
    expect(readFileSync(join(dirname(next.project), '.agent/git/entries'), 'utf8')).toBe(
      'forgejo\nforgejo acme/shop\n',
    );
  });

  it('with a repository that neither serves begins all the same', async () => {
    const { workspace } = await prepared();
    const next = await start('acme/none', workspace);
    expect(next.code).toBe(0);
    expect(readFileSync(join(dirname(next.project), '.agent/git/entries'), 'utf8')).toBe(
      'forgejo\nforgejo acme/shop\n',
    );
  });
});
