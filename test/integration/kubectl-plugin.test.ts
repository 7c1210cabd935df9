import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { packPlugin } from '../../build/kubectl-plugin.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { newUsageRecord } from '../../src/resources/usage-record.ts';
import { startApiFront } from '../support/api-front.ts';
import { runApiServer } from '../support/api-server.ts';
import { aSandbox, aStoredConversation } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl, kubectlPath } from '../support/kubectl.ts';

const run = promisify(execFile);
const dist = fileURLToPath(new URL('../../dist/', import.meta.url));

let up: Installation;
/** Folder of the executable, which is also the home of the person. */
let folder: string;
beforeAll(async () => {
  up = await Installation.start();
  folder = mkdtempSync(join(tmpdir(), 'kubectl-plugin-'));
  packPlugin(dist, join(folder, 'bin'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  expect(await up.stop()).toBe(0);
});

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
const environment = (more: Readonly<Record<string, string>> = {}) => ({
  PATH: `${join(folder, 'bin')}:${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
  HOME: folder,
  KUBECONFIG: up.kubeconfig,
  ...more,
});

/** Runs `kubectl conversations …`: kubectl finds the plugin in PATH. A failure is a result. */
async function plugin(
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Readonly<Record<string, string>> } = {},
): Promise<Result> {
  const child = run(kubectlPath(), ['conversations', ...args], { env: environment(env) });
  child.child.stdin?.end(input);
  try {
    return { code: 0, ...(await child) };
  } catch (error) {
    const { code, stdout, stderr } = error as Result;
    return { code, stdout, stderr };
  }
}
const printed = async (...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await plugin(args);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
};
const started = async (text: string, ...args: readonly string[]): Promise<string> =>
  (await printed('start', '-m', text, '--owner', 'local', ...args)).split('\n')[0] ?? '';

const create = (name: string, spec: object) =>
  kubectl(
    up.kubeconfig,
    ['create', '-f', '-'],
    JSON.stringify({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Conversation',
      metadata: { name },
      spec: { owner: 'local', ...spec },
    }),
  );
const message = (text: string) => ({ initialMessage: { content: [{ type: 'text', text }] } });
const asking = (name: string, more: object = {}) =>
  create(name, {
    ...message('Do it:\n```sh\necho done by plugin\n```'),
    agent: { confirmationPolicy: 'AlwaysConfirm' },
    ...more,
  });
/** Waits until an expectation holds. */
const until = (check: () => void | Promise<void>): Promise<true> =>
  eventually(
    'an expectation holds',
    async () => {
      await check();
      return true;
    },
    60_000,
  );
const shows = (name: string, text: string | RegExp): Promise<true> =>
  until(async () => expect(await printed('why', name)).toMatch(text));

it('a conversation starts, and is followed to its end', async () => {
  const file = join(folder, 'task');
  writeFileSync(file, 'Say it:\n```sh\necho it\n```');
  const { code, stdout, stderr } = await plugin([
    ...['start', '-f', file, '--owner', 'local', '--title', 'Followed', '--follow'],
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const [name = '', ...lines] = stdout.trim().split('\n');
  expect(name).toMatch(/^[0-9a-f]{32}$/);
  expect(lines.at(-1)).toMatch(/^\d\d:\d\d:\d\d Done .*exit code 0/);
  // The gateway shows the same conversation.
  const record = await up.call('GET', `/api/v1/app-conversations?ids=${name}`);
  expect(record).toMatchObject({ body: [{ id: name, title: 'Followed' }] });
  expect(await printed('list', '-o', 'name')).toContain(
    `conversation.conversation-operator.dev/${name}\n`,
  );
  const why = await printed('why', name.slice(0, 30));
  expect(why).toMatch(/^“Followed” \(/);
  expect(why).toMatch(/^Sandbox +sbx-\S+: RUNNING/m);
  expect(why).toMatch(/^Pod +sbx-\S+: Running on the node/m);
  expect(why).toMatch(/^Claim +sbx-\S+: Bound/m);
  expect(why).toMatch(/^Quota +default: \d+ of 10 active of this owner/m);
  expect(why).toContain('READY: The agent has accepted the conversation.');
  await printed('delete', name, '--yes');
});

it('a message is taken from standard input, and a message reaches the agent once', async () => {
  const { stdout } = await plugin(['start', '-f', '-', '--owner', 'local', '-o', 'json'], {
    input: 'Begin:\n```sh\necho begun\n```',
  });
  const { metadata, spec } = JSON.parse(stdout) as {
    metadata: { name: string };
    spec: { initialMessage: { content: { text: string }[] } };
  };
  expect(spec.initialMessage.content[0]?.text).toContain('echo begun');
  const { name } = metadata;
  await shows(name, 'begun');
  expect(await printed('say', name, 'Go on:\n```sh\necho gone on\n```')).toContain(
    `Message 1 to ${name} is stored. The agent gets it`,
  );
  await shows(name, '`echo gone on`: exit code 0');
  const env = { CONVERSATION_OPERATOR_KEY: up.key };
  const events = await plugin(['events', name, '--server', up.url], { env });
  expect(events).toMatchObject({ code: 0, stderr: '' });
  expect(events.stdout.split('echo gone on').length).toBeGreaterThan(2);
  expect(events.stdout.match(/^\d\d:\d\d:\d\d You:$/gm)).toHaveLength(2);
  const json = await plugin(['events', name, '--server', up.url, '-o', 'json'], { env });
  const kinds = json.stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { kind: string }).kind);
  expect(kinds).toEqual(
    expect.arrayContaining(['MessageEvent', 'ActionEvent', 'ObservationEvent']),
  );
  await printed('delete', name, '--yes');
});

it('without a login, events says so, and shows what the cluster knows', async () => {
  const name = await started('Nothing.');
  await shows(name, /^Start +READY/m);
  const { code, stdout, stderr } = await plugin(['events', name]);
  expect(code).toBe(0);
  expect(stderr).toContain('there is neither a login');
  expect(stdout).toMatch(/Z READY: The agent has accepted the conversation\.$/m);
  expect(await plugin(['events', name, '-f'])).toMatchObject({ code: 1 });
  await printed('delete', name, '--yes');
});

it('a question is shown whole, and answered once', async () => {
  await asking('asks');
  await shows('asks', 'Asks whether it may run “echo done by plugin');
  expect(await printed('list')).toMatch(/^asks +Asks /m);
  // Nobody can answer at a pipe.
  const unasked = await plugin(['approve', 'asks']);
  expect(unasked).toMatchObject({ code: 2 });
  expect(unasked.stdout).toContain('| command: echo done by plugin');
  expect(await plugin(['approve', 'asks', '--option', 'nonsense', '--yes'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--option must be one of: approve, reject') as unknown,
  });
  expect(await printed('approve', 'asks', '--yes')).toContain('| command: echo done by plugin');
  await shows('asks', '`echo done by plugin`: exit code 0');
  expect(await plugin(['reject', 'asks', '--yes'])).toMatchObject({
    code: 1,
    stderr: 'Error: The agent of asks asks nothing at the moment\n',
  });
  await printed('delete', 'asks', '--yes');
});

it('an answer resumes the paused sandbox of its question', async () => {
  await asking('asks-paused');
  await shows('asks-paused', 'Asks whether');
  await printed('pause', 'asks-paused');
  await shows('asks-paused', /^Pod +There is none/m);
  expect(await printed('why', 'asks-paused')).toMatch(/^Sandbox +sbx-\S+: PAUSED \(User\)/m);
  expect(await printed('reject', 'asks-paused', '--yes', '--reason', 'Not now')).toContain(
    'Stored. The sandbox resumes and the agent gets it.',
  );
  await shows('asks-paused', /^Sandbox +sbx-\S+: RUNNING/m);
  await printed('delete', 'asks-paused', '--yes');
});

it('a waiting start names its place and what frees it, and quota the same', async () => {
  const quota = { scope: 'Owner', owner: 'queued', limit: 1, onExceeded: 'Queue' };
  const made = {
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'ConversationQuota',
    metadata: { name: 'queued' },
    spec: quota,
  };
  await kubectl(up.kubeconfig, ['create', '-f', '-'], JSON.stringify(made));
  const forever = 'Work:\n```sh\nsleep 1000\n```';
  // Starts that ask within one second have the order of their names.
  for (const [index, name] of ['1', '2', '3'].entries()) {
    await create(`queued-${name}`, { owner: 'queued', title: `No. ${name}`, ...message(forever) });
    await shows(`queued-${name}`, index === 0 ? /: RUNNING/ : /: STARTING \(WaitingForQuota\)/);
  }
  const why = await printed('why', 'queued-3');
  expect(why).toContain(
    '2nd of 2, quota queued. Next place when your running one ends or is paused.',
  );
  expect(why).toContain('queued: 1 of 1 active of this owner.');
  expect(why).toContain('Before this one: “No. 2”.');
  expect(await printed('quota', '--owner', 'queued')).toContain(
    'queued: 1 active, 2 waiting, 0 paused by a quota.',
  );
  expect(await printed('quota')).toMatch(/^default +queued +Owner +queued +1 +1 +2/m);
  await printed('pause', 'queued-1');
  await shows('queued-2', /: RUNNING/);
  for (const name of ['1', '2', '3']) await printed('delete', `queued-${name}`, '--yes');
});

it('why and quota know that a budget holds up starts', async () => {
  const owner = 'poor';
  const budget = { amount: 1, period: 'Month', onExceeded: 'Queue' };
  const made = {
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'ConversationQuota',
    metadata: { name: owner },
    spec: { scope: 'Owner', owner, limit: 4, onExceeded: 'Queue', budget },
  };
  const month = new Date().toISOString().slice(0, 'YYYY-MM'.length);
  const record = newUsageRecord('default', { owner, month });
  const { name } = record.metadata;
  const accounts = [{ key: `${owner}/Month/${month}-01`, unit: 'USD', spent: '1' }];
  for (const object of [made, record])
    await kubectl(up.kubeconfig, ['create', '-f', '-'], JSON.stringify(object));
  const status = JSON.stringify({ status: { accounts } });
  const spent = await kubectl(up.kubeconfig, [
    ...['patch', 'usagerecord', name, '--subresource=status', '--type=merge', '-p', status],
  ]);
  expect(spent.stderr).toBe('');
  await create('poor-one', { owner, ...message('Work.') });
  const next =
    /One more start: The start would wait: your budget for models is used up\. It starts again at /;
  await shows('poor-one', next);
  expect(await printed('quota', '--owner', owner)).toMatch(next);
  for (const each of [`conversation/poor-one`, `conversationquota/${owner}`, `usagerecord/${name}`])
    await kubectl(up.kubeconfig, ['delete', each]);
});

it('a failed start has its remedy, and follow ends with 1', async () => {
  const { code, stdout } = await plugin([
    ...['start', '-m', 'x', '--owner', 'local', '--template', 'absent', '--follow'],
  ]);
  expect(code).toBe(1);
  const [name = ''] = stdout.split('\n');
  expect(await printed('why', name)).toMatch(
    /Ask the operators of this service \(template absent\)\./,
  );
  await printed('delete', name, '--yes');
});

it('follow ends with 1 where a person is needed', async () => {
  const { code, stdout } = await plugin(['start', '-m', 'x', '--owner', 'local', '--follow']);
  expect(stdout).toContain('No model is configured');
  expect(code).toBe(1);
  const [name = ''] = stdout.split('\n');
  await printed('delete', `conversation.conversation-operator.dev/${name}`, '--yes');
});

it('texts of owners and agents move no cursor', async () => {
  const title = 'Evil \u001b[2J\u009b2J\u202e';
  await create('evil', { title, ...message('Nothing.') });
  await shows('evil', /^Start +READY/m);
  for (const args of [['list'], ['why', 'evil'], ['list', '-o', 'yaml'], ['list', '-o', 'json']]) {
    const text = await printed(...args);
    // eslint-disable-next-line no-control-regex -- these must not be printed
    expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
    expect(text).toContain('Evil ');
  }
  const { items } = JSON.parse(await printed('list', '-o', 'json')) as {
    items: { name: string; record: { title: string } }[];
  };
  expect(items.find(({ name }) => name === 'evil')?.record.title).toBe(title);
  await printed('delete', 'evil', '--yes');
});

it('errors are in words, with the codes 1 and 2', async () => {
  await create('same-1', message('Nothing.'));
  await create('same-2', message('Nothing.'));
  const failure = async (...args: readonly string[]) => {
    const { code, stderr } = await plugin(args);
    return `${code} ${stderr}`;
  };
  expect(await failure('delete', 'same', '--yes')).toMatch(
    /^1 Error: 2 conversations begin with 'same', so nothing was done:\n {2}same-1 {2}Nothing\.\n {2}same-2 /,
  );
  expect(await failure('why', 'none')).toContain('1 Error: There is no conversation whose name');
  expect(await failure('why')).toContain("2 error: missing required argument 'name'");
  expect(await failure('list', '-o', 'xml')).toMatch(/^2 error: .*Allowed choices are json, yaml/);
  expect(await failure('start', '-m', 'x')).toContain('2 Error: --owner is needed');
  expect(await failure('list', '--context', 'none')).toContain('1 Error: ');
  expect(await failure('open', 'same-1')).toContain(
    '1 Error: The address of the gateway is not known',
  );
  const dead = join(folder, 'dead');
  const config = readFileSync(up.kubeconfig, 'utf8');
  writeFileSync(dead, config.replace(/server: .*/, 'server: https://127.0.0.1:1'));
  expect(await failure('list', '--kubeconfig', dead)).toContain(
    '1 Error: No answer from the cluster at https://127.0.0.1:1',
  );
  for (const name of ['same-1', 'same-2']) await printed('delete', name, '--yes');
});

it('a missing right is named, and why shows the rest', async () => {
  await using stack = new AsyncDisposableStack();
  const api = await runApiServer();
  stack.defer(() => api.close());
  const front = await startApiFront(api.server.url);
  stack.defer(() => front.close());
  const kubeconfig = join(folder, 'fronted');
  const cluster = { server: front.url, 'insecure-skip-tls-verify': true };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user: { token: api.token } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u', namespace: 'default' } }],
  };
  writeFileSync(kubeconfig, JSON.stringify(config));
  const { apiVersion, kind, spec } = aStoredConversation();
  const metadata = { name: 'rights', namespace: 'default' };
  await api.client.create(conversations, { apiVersion, kind, metadata, spec });
  const box = aSandbox({ name: 'sbx-rights' });
  const { uid } = (
    await api.client.create(sandboxes, { ...box, metadata: { ...metadata, name: 'sbx-rights' } })
  ).metadata;
  const status = { sandboxName: 'sbx-rights', sandboxUID: uid };
  await api.client.mergePatch(
    conversations,
    'default',
    'rights',
    { status },
    { subresource: 'status' },
  );
  const no = { code: 403, reason: 'Forbidden', message: 'no' };
  const refuse = (part: RegExp) => {
    front.refuse = ({ method, path }) => (part.test(`${method} ${path}`) ? no : undefined);
  };
  refuse(/ \/api\/v1\/.*(pods|events|persistentvolumeclaims)|conversationquotas/);
  const why = await printed('why', 'rights', '--kubeconfig', kubeconfig);
  expect(why).toContain(
    'Pod       Not shown: you may not get pods (sbx-rights) in the namespace default.',
  );
  expect(why).toContain('Claim     Not shown: you may not get persistentvolumeclaims (sbx-rights)');
  expect(why).toContain('Quota     Not shown: you may not list conversationquotas.');
  expect(why).toContain('Events    Events are not shown: you may not list events');
  refuse(/^PATCH .*sandboxes/);
  expect(await plugin(['pause', 'rights', '--kubeconfig', kubeconfig])).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'Error: You may not patch sandboxes (sbx-rights) in the namespace default. The cluster says: no\n',
  });
});

it('kubectl completes names', async () => {
  await create('completes', message('Nothing.'));
  const { stdout } = await run(kubectlPath(), ['__complete', 'conversations', 'why', 'compl'], {
    env: environment(),
  });
  expect(stdout).toBe('completes\tNothing.\n:4\n');
  await printed('delete', 'completes', '--yes');
});

it('a login by the device flow gives events, the owner and the page, and keeps its key for the person', async () => {
  const child = spawn(kubectlPath(), ['conversations', 'login', '--server', up.url], {
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const ended = once(child, 'exit');
  const code = await eventually('a code', () => /code (\S+), and allow/.exec(said)?.[1]);
  const link = /^http:\S+\/login\?token=\S+$/m.exec(up.output)?.[0] ?? '';
  const headers = { origin: up.url, 'sec-fetch-site': 'same-origin' };
  const body = new URL(link).searchParams;
  const signedIn = await fetch(`${up.url}/login`, {
    method: 'POST',
    body,
    redirect: 'manual',
    headers,
  });
  const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';');
  const form = new URLSearchParams({ user_code: code, opens: 'all', days: '1', answer: 'allow' });
  const allowed = await fetch(`${up.url}/device`, {
    method: 'POST',
    body: form,
    headers: { ...headers, cookie },
  });
  expect(allowed.status).toBe(200);
  expect([...((await ended) as unknown[])]).toEqual([0, null]);
  const file = join(folder, '.config', 'conversation-operator', 'logins.json');
  expect(said).toMatch(/Logged in as local for the context conversation-operator\./);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const start = await plugin(['start', '-m', 'Hello:\n```sh\necho by login\n```']);
  expect(start.stderr).toContain(`Owner: local, of your login at ${up.url}.`);
  const [name = ''] = start.stdout.split('\n');
  await shows(name, 'by login');
  expect(await printed('open', name, '--no-browser')).toBe(`${up.url}/c/${name}\n`);

  const following = spawn(kubectlPath(), ['conversations', 'events', name, '-f'], {
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let seen = '';
  let complaints = '';
  following.stdout.on('data', (chunk: Buffer) => (seen += chunk.toString()));
  following.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()));
  await until(() => expect(seen).toContain('echo by login'));
  await printed('say', name, 'More:\n```sh\necho followed\n```');
  await until(() => expect(seen).toContain('`echo followed`: exit code 0'));
  expect(seen.match(/^\d\d:\d\d:\d\d You:$/gm)).toHaveLength(2);
  const over = once(following, 'exit');
  following.kill('SIGINT');
  expect([(await over)[0], complaints]).toEqual([0, '']);
  await printed('delete', name, '--yes');
});

describe('On a screen of 100 columns', () => {
  const socket = () => join(folder, 'tmux');
  const tmux = (...args: readonly string[]) =>
    execFileSync('tmux', ['-S', socket(), ...args], { env: environment() }).toString();
  afterAll(() => tmux('kill-server'));

  it('list fits, why shows its sections, and approve asks before it answers', async () => {
    await asking('on-screen', {
      title: 'A title that is longer than the room that its column has',
    });
    await shows('on-screen', 'Asks whether');
    tmux('-f', '/dev/null', 'new-session', '-d', '-x', '100', '-y', '50', 'sh');
    const type = (text: string) => tmux('send-keys', text, 'Enter');
    const screen = () => tmux('capture-pane', '-p');
    const showsText = (text: string | RegExp) => until(() => expect(screen()).toMatch(text));
    type(`PS1='> '; clear; ${kubectlPath()} conversations list; echo listed`);
    await showsText(/^listed$/m);
    const rows = screen()
      .split('\n')
      .filter((line) => /^(NAME|on-screen)/.test(line));
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatch(/^NAME +STATE +AGE +TITLE +WHY$/);
    expect(rows[1]).toMatch(/^on-screen +Asks +\d+s +A title that is longer than the…? .*…$/);
    type(`clear; ${kubectlPath()} conversations why on-screen; echo explained`);
    await showsText(/^explained$/m);
    expect(screen()).toMatch(/^Question +The agent asks to run terminal:$/m);
    type(`clear; ${kubectlPath()} conversations approve on-screen`);
    await showsText(/^Approve this\? \[y\/N\]/m);
    expect(screen()).toContain('| command: echo done by plugin');
    type('n');
    await showsText('Error: Nothing was answered');
    expect(await printed('why', 'on-screen')).toContain('Asks whether');
    type(`clear; ${kubectlPath()} conversations approve on-screen`);
    await showsText(/^Approve this\? \[y\/N\]/m);
    type('y');
    await showsText('Stored. The agent gets it in a moment.');
    await printed('delete', 'on-screen', '--yes');
  });
});
