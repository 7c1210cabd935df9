import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { forwardProxy } from '../support/forward-proxy.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const folder = mkdtempSync(join(tmpdir(), 'sandbox-proxy-'));
const credential = 'bot:s3cret';
let host: GitServer;
let proxy: Awaited<ReturnType<typeof forwardProxy>>;
let up: Installation;
beforeAll(async () => {
  writeFileSync(join(folder, 'forgejo'), credential);
  proxy = await forwardProxy();
  host = await GitServer.start({
    repositories: { 'acme/secret': { files: { 'README.md': 'private\n' } } },
    readers: { 'acme/secret': [credential] },
  });
  const hosts = JSON.stringify({ forgejo: host.url });
  up = await Installation.start({ env: { GIT_HOSTS: hosts, GIT_CREDENTIALS_DIR: folder } });
});
afterAll(async () => {
  await up.stop();
  await host.stop();
  await proxy.close();
  rmSync(folder, { recursive: true });
});

/** Sets the proxy for all later sandboxes, as templates of companies do. */
async function useProxy(): Promise<void> {
  const { stdout } = await kubectl(up.kubeconfig, ['get', 'sandboxtemplates', '-o', 'name']);
  const value = [
    { name: 'http_proxy', value: proxy.url },
    { name: 'HTTP_PROXY', value: proxy.url },
    { name: 'NO_PROXY', value: '.svc' },
    // Node, and so the agent, takes notice of these variables only then.
    { name: 'NODE_USE_ENV_PROXY', value: '1' },
  ];
  const path = '/spec/podTemplate/spec/containers/0/env';
  const patch = JSON.stringify([{ op: 'add', path, value }]);
  const { code, stderr } = await kubectl(up.kubeconfig, [
    ...['patch', stdout.trim(), '--type=json', '-p', patch],
  ]);
  expect([code, stderr]).toEqual([0, '']);
}

it('nothing in a sandbox asks a proxy for the gateway, though the template names a proxy', async () => {
  await useProxy();
  const script = [
    'git checkout -q -b agent/one && echo 1 >one && git add one',
    'git -c user.name=a -c user.email=a@localhost commit -qm one && git push -q origin HEAD',
    // Programs other than git follow the variables, and the list of hosts is for them.
    'curl -s -o /dev/null "$(git remote get-url --push origin)" && echo the gateway has answered',
    'curl -s -o /dev/null http://outside.test/',
    'echo done',
  ].join('\n');
  const { id } = await up.start(`\`\`\`sh\n${script}\n\`\`\``, {
    selected_repository: 'acme/secret',
  });
  const task = await up.over(id);
  expect(task).toMatchObject({ status: 'READY' });
  const conversation = task.app_conversation_id ?? '';
  await eventually(
    'the run is over',
    async () => (await up.conversation(conversation)).execution_status === 'finished',
  );
  const { body } = await up.call('GET', `/api/v1/conversation/${conversation}/events/search`);
  expect(JSON.stringify(body)).toContain('the gateway has answered');
  const { stdout } = await kubectl(up.kubeconfig, [
    ...['get', 'conversation', conversation, '-o', 'jsonpath={.status.pushes[*].outcome}'],
  ]);
  expect(stdout).not.toBe('');
  expect(proxy.asked).toEqual(['GET http://outside.test/']);
});
