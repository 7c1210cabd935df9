import { createHash, randomBytes } from 'node:crypto';
import { chartFolder } from '../../helm/tools/render.ts';
import { commitOn, pushOf, say, scriptRunner, toolCall } from '../forge/support/agent-at-work.ts';
import type { ForgeToken } from '../forge/support/forge.ts';
import { eventually } from '../support/eventually.ts';
import { leaksIn } from '../support/leaks.ts';
import { closeServer } from './support/closed-server.ts';
import { apply, kubectl, stateFolder } from './support/cluster.ts';
import { startForgeOfCluster, type ForgeOfCluster } from './support/forge-pod.ts';
import {
  agentImage,
  chartValues,
  helm,
  release,
  report,
  TestedInstallation,
} from './support/installation.ts';
import { podsThatReach, selected } from './support/network-policies.ts';

const up = new TestedInstallation('push');
const { namespace, sandboxes, tools } = up.facts;
const shop = 'acme/shop';
const credentials = 'e2e-git';
const entry = 'forgejo.push';
const credentialFile = `/etc/conversation-operator/git-credentials/${entry}`;
const writing = ['write:repository', 'write:issue'];
const readyMs = 60_000;
/** The kubelet brings a changed Secret into a pod within its period of a minute and some more. */
const mountMs = 150_000;
const secret = { name: 'DEPLOY_KEY', value: `canary-${randomBytes(16).toString('hex')}` };

const inRelease = (args: string | readonly string[]) =>
  kubectl(['--namespace', namespace, ...(typeof args === 'string' ? args.split(' ') : args)]);
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');
const gateways = () => selected(namespace, { matchLabels: componentLabels('gateway') });
const componentLabels = (component: string) => ({
  'app.kubernetes.io/instance': release,
  'app.kubernetes.io/component': component,
});

let host: ForgeOfCluster;
let closed: AsyncDisposable | undefined;
let token: ForgeToken;
const tokens: Record<string, string> = {};
let conversation = '';
let sandbox = '';
let run: ReturnType<typeof scriptRunner>;

async function newToken(): Promise<ForgeToken> {
  const made = await host.forge.newToken('robot', writing);
  tokens[`token ${made.id}`] = made.text;
  return made;
}

const storeToken = () =>
  apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: credentials, namespace },
    stringData: { [entry]: token.text },
  });

/** The chart of this version with the forge as a second git host, and no gateway of before. */
async function upgrade(): Promise<void> {
  const values = chartValues({
    ...up.facts,
    forge: { url: host.url, port: host.target.port, credentials },
  });
  await helm(
    [
      ...['upgrade', release, chartFolder, '--namespace', namespace],
      ...['--wait', '--timeout', '180s'],
    ],
    values,
  );
  await eventually(
    'the gateways of before to be gone',
    async () => (await gateways()).length === 2,
    readyMs,
  );
}

/** A cluster of test/cluster has no DNS: sandboxes get the agent side's name as a file. */
async function nameAgentSide(): Promise<void> {
  if (stateFolder === undefined) return;
  const service = `${release}-agent-side`;
  const ip = await inRelease(`get service ${service} -o jsonpath={.spec.clusterIP}`);
  const hostAliases = [{ ip, hostnames: [`${service}.${namespace}.svc`] }];
  await up.k([
    ...['patch', 'sandboxtemplate', 'default', '--type', 'merge', '--patch'],
    JSON.stringify({ spec: { podTemplate: { spec: { hostAliases } } } }),
  ]);
}

beforeAll(async () => {
  const { repository, tag } = agentImage();
  const begun = performance.now();
  host = await startForgeOfCluster(tools, `${repository}:${tag}`);
  report('a forge in a pod', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const { forge } = host;
  for (const user of ['acme', 'robot']) await forge.newUser(user);
  await forge.newRepository('acme', 'shop', { files: { 'README.md': 'private\n' } });
  await forge.addCollaborator(shop, 'robot', 'write');
  token = await newToken();
  await storeToken();
  await upgrade();
  await nameAgentSide();
  closed = await closeServer(host.target, [namespace, sandboxes]);
  expect(await up.call('POST', '/api/v1/secrets', secret)).toMatchObject({ status: 201 });
}, 400_000);
afterAll(async () => {
  await up.call('DELETE', `/api/v1/app-conversations/${conversation}`);
  await up.call('DELETE', `/api/v1/secrets/${secret.name}`);
  await closed?.[Symbol.asyncDispose]();
  await host.forge.close();
});

const inProject = (script: string) => up.inSandbox(sandbox, `cd /workspace/project && ${script}`);

it('the network policies open the git host to the gateways alone', async () => {
  expect(await podsThatReach(namespace, host.target)).toEqual([...(await gateways())].toSorted());
  expect(await podsThatReach(sandboxes, host.target)).toEqual([]);
});

it('a private repository is cloned in a sandbox that can not reach its host', async () => {
  const task = await up.over(
    (await up.start('Hello.', { selected_repository: shop, git_provider: 'forgejo' })).id,
    readyMs,
  );
  expect(task).toMatchObject({ status: 'READY', error: null });
  conversation = task.app_conversation_id ?? '';
  sandbox = task.sandbox_id ?? '';
  run = scriptRunner({
    user: up,
    conversation,
    timeoutMs: readyMs,
    read: (name) => up.inSandbox(sandbox, `cat /workspace/${name}`),
  });
  expect(await inProject('cat README.md')).toBe('private');
  const direct = `timeout 5 git ls-remote ${host.url}/${shop}.git`;
  const { code, output } = await run(`GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 ${direct}`);
  // A network plugin drops or refuses connections. A host that is reached asks for a password.
  if (code === 124) expect(output).toBe('');
  else expect(output).toMatch(/Failed to connect|Couldn't connect/);
  expect(await run('git ls-remote origin')).toMatchObject({
    code: 0,
    output: expect.stringContaining('refs/heads/main') as string,
  });
});

it('the agent pushes its branch and opens a pull request, which kubectl shows', async () => {
  const { forge, url } = host;
  expect(await run(pushOf('agent/first'))).toMatchObject({ code: 0 });
  expect(await forge.branches(shop)).toMatchObject({
    'agent/first': await inProject('git rev-parse HEAD'),
  });
  await say(
    up,
    conversation,
    toolCall('create_pull_request', { title: 'First', body: 'By an agent.' }),
  );
  await eventually('the pull request', async () => (await forge.pulls(shop)).length === 1, readyMs);
  expect(await forge.pulls(shop)).toMatchObject([
    {
      number: 1,
      title: 'First',
      state: 'open',
      author: 'robot',
      head: 'agent/first',
      base: 'main',
      url: `${url}/${shop}/pulls/1`,
    },
  ]);
  const get = `get conversations ${conversation}`;
  await eventually(
    'its number in the status',
    async () => (await up.k(`${get} -o jsonpath={.status.pullRequests[*].number}`)) === '1',
  );
  expect(await up.k(get)).toMatch(/ REPOSITORY +PR +OWNER [^]* acme\/shop +1 +push /);
  expect(await up.k(`${get} -o wide`)).toMatch(/ PR-STATE .*\n.* Open /);
  const reasons = await up.k(
    `get events --field-selector involvedObject.name=${conversation} -o jsonpath={.items[*].reason}`,
  );
  expect(reasons.split(' ')).toEqual(expect.arrayContaining(['Pushed', 'PullRequestOpened']));
});

it('a push to main is refused with a reason, and the host has nothing of it', async () => {
  const before = await host.forge.branches(shop);
  const { code, output } = await run(`${commitOn('agent/x')} && git push origin HEAD:main`);
  expect({ code, output }).toEqual({
    code: 1,
    output: expect.stringContaining('the default branch may not be pushed') as string,
  });
  expect(await host.forge.branches(shop)).toEqual(before);
});

it('a token that is replaced in its Secret during a pause counts after it', async () => {
  await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await up.reaches(conversation, { sandbox_status: 'PAUSED' }, readyMs);
  const old = token;
  token = await newToken();
  const begun = performance.now();
  await inRelease([
    ...['patch', 'secret', credentials, '--patch'],
    JSON.stringify({ stringData: { [entry]: token.text } }),
  ]);
  const digest = `const { createHash } = require('node:crypto'); console.log(createHash('sha256').update(require('node:fs').readFileSync('${credentialFile}')).digest('hex'))`;
  const wanted = digestOf(token.text);
  for (const pod of await gateways())
    await eventually(
      `the new token in ${pod}`,
      async () =>
        (await inRelease(['exec', pod, '--', '/usr/local/bin/node', '--eval', digest])) === wanted,
      mountMs,
    );
  report(
    'a changed Secret in all gateways',
    `${((performance.now() - begun) / 1000).toFixed(1)} s`,
  );
  await host.forge.revoke(old);
  await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
  await up.reaches(conversation, { sandbox_status: 'RUNNING' }, readyMs);
  expect(await run(pushOf('agent/second'))).toMatchObject({ code: 0 });
  expect(await host.forge.branches(shop)).toHaveProperty('agent/second');
  await host.forge.revoke(token);
  const refused = await run(pushOf('agent/third'));
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain('the credential of its owner does not allow this');
}, 300_000);

it('a secret is in the environment of a command', async () => {
  expect(await run(`printf %s "$${secret.name}" | sha256sum`)).toEqual({
    code: 0,
    output: `${digestOf(secret.value)}  -\n`,
  });
});

it('neither the secret nor a token is in a resource or a log', async () => {
  const secrets = { ...tokens, [secret.name]: secret.value };
  expect(Object.keys(secrets)).toHaveLength(3);
  // The search finds what is there.
  const given = await inRelease(`get secret ${credentials} -o json`);
  expect(leaksIn(given, secrets)).toContain(`token ${token.id}`);
  const kinds = (await kubectl('api-resources --namespaced --verbs=list -o name'))
    .split('\n')
    .filter((kind) => kind !== 'secrets')
    .join(',');
  for (const place of [namespace, sandboxes]) {
    const resources = await kubectl(`--namespace ${place} get ${kinds} -o json`);
    // The Secret that an administrator keeps the tokens in has one of them.
    const others = await kubectl(
      `--namespace ${place} get secrets --field-selector metadata.name!=${credentials} -o json`,
    );
    expect([place, leaksIn(resources + others, secrets)]).toEqual([place, []]);
    if (place === sandboxes)
      for (const part of ['"sealed": "', 'refs/heads/agent/second', `"name": "${sandbox}"`])
        expect(resources).toContain(part);
  }
  const logs = [
    ...[...(await gateways()), ...(await operators())].map((pod) => [namespace, pod] as const),
    [sandboxes, sandbox] as const,
  ];
  for (const [place, pod] of logs) {
    const log = await kubectl(`--namespace ${place} logs ${pod}`);
    expect([pod, leaksIn(log, secrets)]).toEqual([pod, []]);
  }
});

const operators = () => selected(namespace, { matchLabels: componentLabels('operator') });
