import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../support/eventually.ts';
import { Installation, program, saying } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { leaksIn } from '../support/leaks.ts';
import { RestUser } from '../support/rest-user.ts';
import { commitOn, pushOf, startAgent, type AgentAtWork } from './support/agent-at-work.ts';
import { startForge, type Forge, type ForgeToken } from './support/forge.ts';
import { filesWith, visibleTexts } from './support/leak-scan.ts';

const run = promisify(execFile);
const shop = 'acme/shop';
const writing = ['write:repository'];
const folder = mkdtempSync(join(tmpdir(), 'forge-test-'));
const credentials = join(folder, 'credentials');
let forge: Forge;
let up: Installation;
let agent: AgentAtWork;

/** Every credential that an owner has had, as the gateway sends it and in its parts. */
const secrets: Record<string, string> = {};
let present: ForgeToken;

/** Gives an owner a new token of a user of the forge, in place of the present one. */
async function give(owner: string, user: string, scopes: readonly string[]): Promise<ForgeToken> {
  const token = await forge.newToken(user, scopes);
  secrets[`${user} ${token.id}`] = token.text;
  secrets[`${user} ${token.id} as git sends it`] = `token:${token.text}`;
  writeFileSync(join(credentials, `forgejo.${owner}`), `${token.text}\n`);
  return token;
}

/** A new token for the conversation's owner; the forge no longer accepts the old one. */
async function rotate(scopes = writing): Promise<void> {
  const old = present;
  present = await give('local', 'robot', scopes);
  await forge.revoke(old);
}

beforeAll(async () => {
  forge = await startForge();
  for (const user of ['acme', 'robot', 'eve', 'bob']) await forge.newUser(user);
  const library = { 'lib.txt': 'A library.\n' };
  await forge.newRepository('acme', 'lib', { files: library });
  await forge.newRepository('acme', 'other', { files: { 'README.md': 'Another.\n' } });
  const { main: libraryCommit = '' } = await forge.branches('acme/lib');
  await forge.newRepository('acme', 'shop', {
    files: {
      'README.md': 'private\n',
      '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n',
      lib: { module: libraryCommit },
    },
  });
  await forge.addCollaborator(shop, 'robot', 'write');
  await forge.addCollaborator('acme/lib', 'robot', 'read');
  await forge.addCollaborator('acme/other', 'robot', 'read');
  await forge.addCollaborator(shop, 'bob', 'read');
  mkdirSync(credentials);
  present = await give('local', 'robot', writing);

  up = await Installation.start({
    env: {
      GIT_HOSTS: JSON.stringify({ forgejo: forge.url }),
      GIT_CREDENTIALS_DIR: credentials,
      LOG_LEVEL: 'debug',
    },
  });
  const patched = await kubectl(up.kubeconfig, [
    ...['patch', 'sandboxtemplate', 'default', '--type', 'merge'],
    ...['--patch', JSON.stringify({ spec: { git: { readable: ['acme/lib'] } } })],
  ]);
  expect(patched).toMatchObject({ code: 0 });
  agent = await startAgent(up, shop);
});
afterAll(async () => {
  await up.stop();
  await forge.close();
  rmSync(folder, { recursive: true });
});

/** Everything of a repository that a push could change. */
const references = async () => [await forge.branches(shop), await forge.tags(shop)];

it('an agent has a clone of a private repository, and its branch reaches the forge', async () => {
  expect(readFileSync(join(agent.project, 'README.md'), 'utf8')).toBe('private\n');
  expect(await agent.run(pushOf('agent/first'))).toMatchObject({ code: 0 });
  const { output: commit } = await agent.run('git rev-parse HEAD');
  expect(await forge.branches(shop)).toMatchObject({ 'agent/first': commit.trim() });
  await eventually('the record', async () => (await agent.pushes()).length === 1);
  expect(await agent.pushes()).toEqual([['refs/heads/agent/first', 'Accepted']]);
  // A second push continues the branch, and the agent sees what others push.
  expect(await agent.run(pushOf('agent/first'))).toMatchObject({ code: 0 });
  await forge.api('POST', `/repos/${shop}/branches`, { new_branch_name: 'from-a-person' });
  expect(await agent.run('git fetch -q && git rev-parse origin/from-a-person')).toMatchObject({
    code: 0,
  });
});

describe('a push', () => {
  beforeAll(async () => {
    expect(await agent.run(pushOf('agent/kept'))).toMatchObject({ code: 0 });
  });

  it.each([
    ['to the default branch', 'git push origin HEAD:main', 'the default branch may not be pushed'],
    ['to another branch', 'git push origin HEAD:fix', 'only branches like openhands/* or agent/*'],
    ['of a tag', 'git tag -f v1 && git push origin v1', 'only branches may be pushed'],
    ['that deletes', 'git push origin :agent/kept', 'branches may not be deleted'],
    [
      'that loses a commit',
      `git reset -q --hard HEAD~1 && ${commitOn('agent/kept')} && git push -f origin agent/kept`,
      'can not distinguish it from a forced push',
    ],
  ])(
    '%s is refused with a reason, and the forge has nothing of it',
    async (_what, script, words) => {
      const [before, recorded] = [await references(), await agent.pushes()];
      const { code, output } = await agent.run(script);
      expect({ code, output }).toEqual({
        code: 1,
        output: expect.stringContaining(words) as string,
      });
      expect(await references()).toEqual(before);
      expect(await agent.pushes()).toEqual(recorded);
    },
  );

  it('with options is refused, because the forge would publish the repository', async () => {
    const isPrivate = async () => (await forge.api('GET', `/repos/${shop}`)).body;
    const { code, output } = await agent.run(
      `${commitOn('agent/options')} && git push -o repo.private=false origin agent/options`,
    );
    expect(code).not.toBe(0);
    expect(output).toContain('does not support push options');
    expect(await isPrivate()).toMatchObject({ private: true });
  });

  it('that the forge refuses shows the words of the forge, and is recorded', async () => {
    await forge.api('POST', `/repos/${shop}/branch_protections`, {
      rule_name: 'agent/protected',
      enable_push: false,
    });
    const { code, output } = await agent.run(pushOf('agent/protected'));
    expect(code).toBe(1);
    expect(output).toContain('pre-receive hook declined');
    expect(output).toMatch(/remote: .*protected branch agent\/protected/);
    expect(await forge.branches(shop)).not.toHaveProperty('agent/protected');
    await eventually('the record', async () =>
      (await agent.pushes()).some(
        ([ref, outcome]) => ref === 'refs/heads/agent/protected' && outcome === 'Rejected',
      ),
    );
  });
});

describe('a token', () => {
  // Each test leaves a token that may push.
  afterEach(async () => {
    present = await give('local', 'robot', writing);
  });

  it('is replaced without a restart, and the old one opens nothing', async () => {
    await rotate();
    expect(await agent.run(pushOf('agent/rotated'))).toMatchObject({ code: 0 });
    await forge.revoke(present);
    const { code, output } = await agent.run(pushOf('agent/revoked'));
    expect(code).not.toBe(0);
    expect(output).toContain('the credential of its owner does not allow this');
    expect((await agent.run('git fetch')).output).toContain('the credential of its owner');
    expect(await forge.branches(shop)).not.toHaveProperty('agent/revoked');
  });

  it('that may only read pushes nothing, and says so', async () => {
    await rotate(['read:repository']);
    expect(await agent.run('git fetch')).toMatchObject({ code: 0 });
    const { code, output } = await agent.run(pushOf('agent/reading'));
    expect(code).not.toBe(0);
    expect(output).toContain('the credential of its owner does not allow this');
    expect(await forge.branches(shop)).not.toHaveProperty('agent/reading');
  });

  it('that has ended during a pause is replaced for the work after it', async () => {
    expect(await agent.run(pushOf('agent/paused'))).toMatchObject({ code: 0 });
    const before = (await forge.branches(shop))['agent/paused'];
    await agent.pause();
    await rotate();
    expect(await agent.run(pushOf('agent/paused'))).toMatchObject({ code: 0 });
    const { output: commit } = await agent.run('git rev-parse HEAD~1 HEAD');
    const after = (await forge.branches(shop))['agent/paused'];
    expect(commit.trim().split('\n')).toEqual([before, after]);
  });
});

it('a submodule that the template opens is cloned, and another repository is not', async () => {
  expect(await agent.run('git submodule update --init')).toMatchObject({ code: 0 });
  expect(readFileSync(join(agent.project, 'lib/lib.txt'), 'utf8')).toBe('A library.\n');
  const pushed = await agent.run('cd lib && git push origin HEAD:refs/heads/agent/lib');
  expect(pushed.code).not.toBe(0);
  expect(pushed.output).toContain('No conversation in this sandbox has this repository');
  // The token of the owner would open it.
  const { output: url } = await agent.run('git remote get-url --push origin');
  const other = await agent.run(`git ls-remote ${url.trim().replace(shop, 'acme/other')}`);
  expect(other.code).not.toBe(0);
  expect(other.output).toContain('No conversation in this sandbox has this repository');
});

it('Git LFS is refused with a reason, because its answers have the credential', async () => {
  const large = (url: string, user: string, password: string) =>
    fetch(`${url}/info/lfs/objects/batch`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
        accept: 'application/vnd.git-lfs+json',
        'content-type': 'application/vnd.git-lfs+json',
      },
      body: JSON.stringify({
        operation: 'upload',
        transfers: ['basic'],
        objects: [{ oid: 'a'.repeat(64), size: 1 }],
      }),
    });
  const direct = await large(`${forge.url}/${shop}.git`, 'token', present.text);
  expect(leaksIn(await direct.text(), secrets)).not.toEqual([]);

  const { output: url } = await agent.run('git remote get-url --push origin');
  const token = readFileSync(join(agent.workspace, '.agent/git/token'), 'utf8');
  const answer = await large(url.trim(), 'agent', token);
  expect(answer.status).toBe(501);
  const text = await answer.text();
  expect(text).toContain('does not serve Git LFS');
  const headers = JSON.stringify([...answer.headers]);
  expect(leaksIn(text + headers, secrets)).toEqual([]);
});

describe('another owner', () => {
  const start = (user: RestUser) =>
    user.call('POST', '/api/v1/app-conversations', {
      ...saying('Hello.'),
      selected_repository: shop,
    });
  const denied = { status: 403, body: { code: 'repository-access-denied' } };
  const newUser = async (owner: string): Promise<RestUser> => {
    const { stdout } = await run(process.execPath, [
      ...[program, 'keys', 'create', '--owner', owner, '--kubeconfig', up.kubeconfig],
    ]);
    return new RestUser({ url: up.url, key: stdout.trim() });
  };

  it('without a credential is refused at the start', async () => {
    expect(await start(await newUser('carol'))).toMatchObject(denied);
  });

  it('with a credential that does not open the repository is refused at the start', async () => {
    await give('eve', 'eve', writing);
    expect(await start(await newUser('eve'))).toMatchObject(denied);
  });

  it('with a credential that opens the repository has a clone of it', async () => {
    await give('bob', 'bob', writing);
    const bob = await newUser('bob');
    const { id } = await bob.start('Hello.', { selected_repository: shop });
    expect(await bob.over(id)).toMatchObject({ status: 'READY' });
  });
});

describe('a credential of the forge', () => {
  it('is in no file of the installation', async () => {
    expect(await agent.run(pushOf('agent/scanned'))).toMatchObject({ code: 0 });
    // The scan finds what there is.
    expect(filesWith(secrets, credentials)).toContain(join(credentials, 'forgejo.local'));
    const own = { own: readFileSync(join(agent.workspace, '.agent/git/token'), 'utf8') };
    expect(filesWith(own, agent.workspace)).toEqual([join(agent.workspace, '.agent/git/token')]);
    expect(filesWith(secrets, up.dataDir)).toEqual([]);
  });

  it('is in no resource, log line, argument or environment of a process', async () => {
    for (const text of await visibleTexts(up)) expect(leaksIn(text, secrets)).toEqual([]);
  });
});
