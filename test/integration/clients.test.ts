import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CloudClient } from '@openhands/typescript-client/clients';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { SignInBrowser } from '../support/gateway/sign-in-browser.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { leaksIn, withoutFields, type Secrets } from '../support/leaks.ts';
import { recordingProxy } from '../support/recording-proxy.ts';
import { unzip } from '../support/unzip.ts';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'clients-'));
const said = 'a text that only its owner may read';
let up: Installation;
let proxy: Awaited<ReturnType<typeof recordingProxy>>;
let client: CloudClient;
const secrets: Record<string, string | Buffer> = {};

/** A repository on a git host, which here is a folder. */
function makeRepository(): string {
  const git = (where: string, ...args: string[]) =>
    execFileSync(
      'git',
      ['-c', 'user.name=test', '-c', 'user.email=test@localhost', '-C', where, ...args],
      { stdio: 'pipe' },
    );
  const tree = join(folder, 'tree');
  mkdirSync(tree);
  git(tree, 'init', '--quiet', '--initial-branch', 'main');
  writeFileSync(join(tree, 'README.md'), 'The shop.\n');
  git(tree, 'add', '.');
  git(tree, 'commit', '--quiet', '--message', 'first');
  mkdirSync(join(folder, 'hosted', 'acme'), { recursive: true });
  git(folder, 'clone', '--quiet', '--bare', tree, join(folder, 'hosted', 'acme', 'shop.git'));
  return `file://${join(folder, 'hosted')}`;
}

beforeAll(async () => {
  const credentials = join(folder, 'credentials');
  mkdirSync(credentials);
  secrets['git credential'] = `ghp_${randomBytes(16).toString('hex')}`;
  writeFileSync(join(credentials, 'github'), `reader:${secrets['git credential']}\n`, {
    mode: 0o600,
  });
  const git = {
    GIT_HOSTS: JSON.stringify({ github: makeRepository() }),
    GIT_CREDENTIALS_DIR: credentials,
  };
  up = await Installation.start({ env: { ...git, LOG_LEVEL: 'debug' } });
  proxy = await recordingProxy(up.url);
  client = new CloudClient({ host: proxy.url, apiKey: up.key });
});
afterAll(async () => {
  await proxy.close();
  await up.stop();
  rmSync(folder, { recursive: true, force: true });
});

const ready = (taskId: string) =>
  eventually('READY', async () => {
    const task = await client.getConversationStartTask(taskId);
    if (task?.status === 'ERROR') throw new Error(JSON.stringify(task));
    return task?.status === 'READY' && task;
  });

/** Results of its methods with this service. The other methods are its own plumbing. */
const refused = { status: 404, response: { code: 'route-not-found' } };
const none = 'none';
const beyond: Readonly<
  Record<
    string,
    readonly [call: (client: CloudClient, id: string) => Promise<unknown>, expected: object]
  >
> = {
  getOrganizationMe: [(it) => it.getOrganizationMe(none), refused],
  getSettingsSchema: [(it) => it.getSettingsSchema(), refused],
  getConversationSettingsSchema: [(it) => it.getConversationSettingsSchema(), refused],
  getProfile: [(it) => it.getProfile(none), refused],
  saveProfile: [(it) => it.saveProfile(none, { llm: { model: none } }), refused],
  deleteProfile: [(it) => it.deleteProfile(none), refused],
  renameProfile: [(it) => it.renameProfile(none, 'other'), refused],
  activateProfile: [(it) => it.activateProfile(none), refused],
  getSuggestedTasks: [(it) => it.getSuggestedTasks(), refused],
  switchConversationProfile: [(it, id) => it.switchConversationProfile(id, none), refused],
  switchConversationAcpModel: [(it, id) => it.switchConversationAcpModel(id, none), refused],
  listAutomations: [(it) => it.listAutomations(), refused],
  getAutomation: [(it) => it.getAutomation(none), refused],
  updateAutomation: [(it) => it.updateAutomation(none, {}), refused],
  deleteAutomation: [(it) => it.deleteAutomation(none), refused],
  dispatchAutomation: [(it) => it.dispatchAutomation(none), refused],
  listAutomationRuns: [(it) => it.listAutomationRuns(none), refused],
  downloadAutomationTarball: [(it) => it.downloadAutomationTarball(none), refused],
  getAutomationHealth: [(it) => it.getAutomationHealth(), refused],
};
const covered = [
  ...[
    'createConversation',
    'getConversationStartTask',
    'getConversations',
    'searchConversations',
    'getSandboxes',
    'pauseSandbox',
  ],
  ...[
    'resumeSandbox',
    'updateConversationPublicFlag',
    'downloadConversation',
    'readConversationFile',
    'deleteConversation',
    'getCurrentApiKey',
    'startDeviceFlow',
    'pollForToken',
    'getSettings',
  ],
  ...[
    'getSettingsWithDerivedFields',
    'listSkills',
    'searchRepositories',
    'getRepositoryBranches',
    ...['saveSettings', 'listSecrets', 'createSecret', 'updateSecret', 'deleteSecret'],
    ...['getOrganizations', 'listProfiles', 'getInstallations', 'searchModels', 'searchProviders'],
  ],
];
const plumbing = [
  'constructor',
  'request',
  'requestDirect',
  'requestThroughProxy',
  'buildUpstreamAuthHeaders',
  'profileBasePath',
];

describe("the official client's CloudClient, against the built program", () => {
  let id: string;
  let sandbox: string;
  const record = async () => (await client.getConversations([id]))[0];
  const reaches = (values: object) =>
    eventually(JSON.stringify(values), async () => {
      const now = await record();
      return Object.entries(values).every(
        ([name, value]) => Reflect.get(now ?? {}, name) === value,
      );
    });

  it('has no method that is not spoken of here', () => {
    expect(Object.getOwnPropertyNames(CloudClient.prototype).sort()).toEqual(
      [...plumbing, ...covered, ...Object.keys(beyond)].sort(),
    );
  });

  it('learns whose key it has, and what there is', async () => {
    expect(await client.getCurrentApiKey()).toMatchObject({ user_id: 'local' });
    expect(await client.getSettings()).toMatchObject({ provider_tokens_set: { github: null } });
    expect(await client.getSettingsWithDerivedFields()).toMatchObject({
      llm_api_key_set: true,
      provider_tokens_set: { github: null },
    });
    expect(await client.listSkills()).toEqual([]);
    expect(await client.getOrganizations()).toEqual({ items: [], currentOrgId: null });
    expect(await client.listProfiles()).toEqual({ profiles: [], active_profile: null });
    for (const empty of [
      client.getInstallations({ provider: 'github' }),
      client.searchModels({}),
      client.searchProviders({}),
    ]) {
      expect(await empty).toEqual({ items: [], next_page_id: null });
    }
    expect(
      await client.searchRepositories({ provider: 'github', query: 'acme/shop' }),
    ).toMatchObject({ items: [{ full_name: 'acme/shop' }] });
    expect(
      await client.getRepositoryBranches({
        provider: 'github',
        repository: 'acme/shop',
        query: 'main',
      }),
    ).toMatchObject({ items: [{ name: 'main' }] });
    expect(await client.searchConversations()).toEqual({ items: [], next_page_id: null });
  });

  it('starts a conversation on a repository, polls, and lists it', async () => {
    const task = await client.createConversation({
      initial_message: {
        role: 'user',
        content: [{ type: 'text', text: `${said}\n\`\`\`sh\ncat README.md >kept.txt\n\`\`\`` }],
      },
      selected_repository: 'acme/shop',
      selected_branch: 'main',
      git_provider: 'github',
      trigger: 'gui',
    });
    expect(task).toMatchObject({ status: 'WORKING', app_conversation_id: null });
    const done = await ready(task.id);
    id = done.app_conversation_id ?? '';
    await reaches({ execution_status: 'finished', sandbox_status: 'RUNNING' });
    sandbox = (await record())?.sandbox_id ?? '';
    expect((await client.searchConversations()).items.map((item) => item.id)).toEqual([id]);
  });

  it('reads what has happened, from the service and from the agent behind it', async () => {
    const events = await client.get<{ items: readonly { kind: string }[] }>(
      `/api/v1/conversation/${id}/events/search?limit=100`,
    );
    expect(events.items.map(({ kind }) => kind)).toContain('MessageEvent');
    // The client returns the JSON as a text.
    expect(await client.readConversationFile(id, '/workspace/no-such-file')).toBe('""');
    const download = await client.downloadConversation(id);
    const files = await unzip(Buffer.from(await download.arrayBuffer()));
    expect(files).toHaveLength(events.items.length + 1);
    expect(JSON.parse(files.at(-1)?.[1] ?? '')).toMatchObject({
      id,
      event_count: events.items.length,
    });
    const [found] = await client.getSandboxes([sandbox]);
    const { conversation_url: url, session_api_key: key } = (await record()) as {
      conversation_url?: string;
      session_api_key?: string;
    };
    expect(found).toMatchObject({ id: sandbox, status: 'RUNNING', session_api_key: key });
    const answer = await fetch(url ?? '', { headers: { 'X-Session-API-Key': key ?? '' } });
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { execution_status: 'finished' },
    ]);
    expect(
      (await fetch(url ?? '', { headers: { Authorization: `Bearer ${up.key}` } })).status,
    ).toBe(401);
    secrets['session key'] = key ?? '';
  });

  it('pauses and resumes, and files are still there', async () => {
    await client.pauseSandbox(sandbox);
    await reaches({ sandbox_status: 'PAUSED', session_api_key: null, conversation_url: null });
    await client.resumeSandbox(sandbox);
    await reaches({ sandbox_status: 'RUNNING' });
    const { stdout: volume } = await kubectl(up.kubeconfig, [
      'get',
      'pvc',
      sandbox,
      '-o',
      'jsonpath={.metadata.uid}',
    ]);
    expect(
      readFileSync(join(up.dataDir, 'node', 'volumes', volume, 'project', 'kept.txt'), 'utf8'),
    ).toBe('The shop.\n');
  });

  it('renames it and shares it', async () => {
    expect(
      await client.patch(`/api/v1/app-conversations/${id}`, { title: 'Renamed' }),
    ).toMatchObject({ id, title: 'Renamed' });
    expect(await client.updateConversationPublicFlag(id, true)).toMatchObject({
      id,
      title: 'Renamed',
      public: true,
    });
    expect(await record()).toMatchObject({ title: 'Renamed', public: true });
  });

  it.each(Object.entries(beyond))(
    'gets the answer that this service has no such operation: %s',
    async (_method, [call, expected]) => {
      await expect(call(client, id)).rejects.toMatchObject(expected);
    },
  );

  it('logs in by a code that a person answers', async () => {
    const { device_code, user_code, interval } = await client.startDeviceFlow();
    const browser = new SignInBrowser();
    const submit = (path: string, form: Readonly<Record<string, string>>) =>
      browser.visit(new URL(path, up.url), {
        method: 'POST',
        form,
        headers: { origin: up.url, 'sec-fetch-site': 'same-origin' },
      });
    expect((await submit('/login', { api_key: up.key })).status).toBe(303);
    const answer = { user_code, answer: 'allow', opens: 'read', days: '1' };
    expect((await submit('/device', answer)).text).toContain('The program has its key.');
    const { access_token: apiKey } = await client.pollForToken(device_code, { interval });
    secrets['key of a login by a code'] = apiKey;
    const other = new CloudClient({ host: proxy.url, apiKey });
    expect(await other.getCurrentApiKey()).toMatchObject({ user_id: 'local' });
    await expect(other.pauseSandbox(sandbox)).rejects.toMatchObject({
      status: 403,
      response: { code: 'insufficient-scope' },
    });
  });

  it('stores secrets and settings, and reads no value', async () => {
    await client.createSecret('SHOP_TOKEN', 's3cret-of-the-shop', 'For the shop');
    secrets['secret of the owner'] = 's3cret-of-the-shop';
    await client.updateSecret('SHOP_TOKEN', 'STORE_TOKEN', 'For the store');
    expect(await client.listSecrets()).toEqual([
      { name: 'STORE_TOKEN', description: 'For the store' },
    ]);
    await client.deleteSecret('STORE_TOKEN');
    expect(await client.listSecrets()).toEqual([]);
    await client.saveSettings({ app_preferences: { language: 'en' } });
    expect(await client.getSettings()).toMatchObject({ llm_api_key_set: true });
  });

  it('gets the reason why it may not', async () => {
    await expect(
      new CloudClient({ host: proxy.url, apiKey: 'wrong' }).searchConversations(),
    ).rejects.toMatchObject({ status: 401 });
    await expect(client.pauseSandbox('none')).rejects.toMatchObject({
      status: 404,
      response: { code: 'not-found' },
    });
  });

  it('deletes it', async () => {
    await client.deleteConversation(id);
    expect(await client.getConversations([id])).toEqual([]);
    expect((await client.searchConversations()).items).toEqual([]);
    await eventually(
      'its sandbox to go',
      async () => (await client.getSandboxes([sandbox]))[0] === null,
    );
  });
});

describe('scripts as in the public documentation, with our address and key', () => {
  const script = async (program: string, file: string) => {
    const path = fileURLToPath(new URL(`scripts/${file}`, import.meta.url));
    const env = { PATH: process.env['PATH'], BASE_URL: proxy.url, API_KEY: up.key };
    return (await run(program, [path], { env, timeout: 60_000 })).stdout.trim().split('\n');
  };
  const id = expect.stringMatching(/^[0-9a-f]{32}$/) as string;

  it('start and poll with curl and jq, and stream', async () => {
    expect(
      (await script('bash', 'start-and-poll.sh')).map((line) =>
        line.replaceAll(/[0-9a-f]{32}/g, 'ID'),
      ),
    ).toEqual([
      'started ID: WORKING',
      'ready ID',
      'ended finished RUNNING acme/shop',
      expect.stringMatching(/^page 1 (true|false)$/),
      'streamed WORKING WAITING_FOR_SANDBOX PREPARING_REPOSITORY SETTING_UP_SKILLS READY true',
    ]);
  });

  it('start and poll with Python', async () => {
    const [readyLine = '', ...rest] = await script('python3', 'start_and_poll.py');
    expect(readyLine.split(' ')).toEqual(['ready', id]);
    expect(rest).toEqual(['ended finished RUNNING', 'found True True', 'unknown []']);
  });

  it('start by the deprecated interface with curl', async () => {
    const [line = ''] = await script('bash', 'legacy.sh');
    expect(line.split(' ')).toEqual(['ok', id]);
    await eventually(
      'a conversation',
      async () => (await client.getConversations([line.split(' ')[1] ?? ''])).length === 1,
    );
  });
});

describe('what all of this leaves behind', () => {
  /** Once, when everything above has happened. */
  const collect = async () => {
    const masterKey = Buffer.from(
      readFileSync(join(up.dataDir, 'master-key'), 'utf8').trim(),
      'hex',
    );
    const keys = new SandboxKeys([masterKey]);
    const k = async (...args: string[]) => (await kubectl(up.kubeconfig, args)).stdout;
    const list = JSON.parse(await k('get', 'sandboxes', '-o', 'json')) as {
      items: { metadata: { name: string; uid: string }; status: { podIP?: string } }[];
    };
    const config = readFileSync(up.kubeconfig, 'utf8');
    Object.assign(secrets, {
      'API key': up.key,
      'master key': masterKey,
      'API token': /token: (\S+)/.exec(config)?.[1] ?? '',
    });
    for (const [index, { metadata, status }] of list.items.entries()) {
      secrets[`session key ${index}`] = keys.sessionKey(metadata.uid);
      secrets[`secret key ${index}`] = keys.secretKey(metadata.uid);
      internal[`pod IP ${index}`] = `${status.podIP ?? 'no address'}:8000`;
    }
    Object.assign(internal, {
      'API server': /server: (\S+)/.exec(config)?.[1] ?? '',
      'data folder': up.dataDir,
    });
    return k;
  };
  const internal: Record<string, string> = {};
  let k: Awaited<ReturnType<typeof collect>>;
  beforeAll(async () => {
    k = await collect();
  });
  const all = (): Secrets => ({ ...secrets, ...internal });

  it('are no empty secrets: they are where they belong', async () => {
    expect(Object.keys(all()).length).toBeGreaterThan(8);
    expect(Object.values(all()).filter((secret) => secret.length < 8)).toEqual([]);
    const { exchanges } = proxy;
    const bodies = exchanges.map(({ body }) => body).join('\n');
    expect(leaksIn(bodies, secrets)).toContain('session key');
    expect(
      leaksIn(await k('get', 'sandboxes', '-o', 'json'), {
        ip: (internal['pod IP 0'] ?? '').split(':')[0] ?? '',
      }),
    ).toEqual(['ip']);
    expect(up.output).toContain('"level":"debug"');
    expect(up.output).toContain('"component":"audit"');
    expect(exchanges.length).toBeGreaterThan(50);
  });

  it('is no secret in an answer, but to the owner of a sandbox its session key', () => {
    for (const { request, headers, body } of proxy.exchanges) {
      const seen = `${JSON.stringify(headers)}\n${withoutFields(body, 'session_api_key', 'working_dir', 'access_token')}`;
      // An agent says itself in which folder it works; here that is one of this machine.
      const secret =
        request.includes('/events/search') || request.includes('/download')
          ? { ...all(), 'data folder': secrets['API key'] ?? '' }
          : all();
      expect([request, leaksIn(seen, secret)]).toEqual([request, []]);
    }
  });

  it('is no secret in a log, nor what a message says', () => {
    const lines = up.output.split('\n').filter((line) => line.startsWith('{'));
    expect(lines.length).toBeGreaterThan(50);
    for (const line of lines)
      expect([line, leaksIn(line, { ...secrets, message: said })]).toEqual([line, []]);
  });

  it('is no secret in a resource, an Event or a metric', async () => {
    const resources = await k(
      'get',
      'conversations,sandboxes,sandboxtemplates,conversationquotas,apikeys,pods,pvc,leases,events',
      '-o',
      'json',
    );
    expect(leaksIn(resources, secrets)).toEqual([]);
    const metrics = await (await fetch(/metrics\s+(\S+)/.exec(up.output)?.[1] ?? '')).text();
    expect(metrics).toContain('http_requests');
    expect(leaksIn(metrics, all())).toEqual([]);
    const { items } = JSON.parse(await k('get', 'events', '-o', 'json')) as {
      items: { reason: string }[];
    };
    // The Event of a failed probe has the address, as a kubelet writes it.
    const events = items.filter(({ reason }) => reason !== 'Unhealthy');
    expect(events.length).toBeGreaterThan(5);
    expect(leaksIn(JSON.stringify(events), all())).toEqual([]);
  });
});
