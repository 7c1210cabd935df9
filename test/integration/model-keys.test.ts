import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { leaksIn } from '../support/leaks.ts';
import { ModelServer } from '../support/model-server.ts';
import { memoryHas } from '../support/process-memory.ts';

const key = `sk-${randomBytes(24).toString('hex')}`;
let model: ModelServer;
let up: Installation;
beforeAll(async () => {
  model = await ModelServer.start({ text: 'Hello' }, { text: 'Hello' });
  up = await Installation.start({
    env: { LLM_MODEL: 'openai/m', LLM_BASE_URL: model.baseUrl, LLM_API_KEY: key },
  });
});
afterAll(async () => {
  await up.stop();
  await model[Symbol.asyncDispose]();
});

/** Starts a conversation in a sandbox of its own, and waits for the end of its run. */
async function talk(): Promise<void> {
  const { id } = await up.start('Say hello');
  const { status, app_conversation_id: conversation } = await up.over(id);
  expect(status).toBe('READY');
  await eventually(`the end of ${id}`, async () => {
    const record = await up.conversation(conversation ?? '');
    return ['finished', 'error'].includes(record.execution_status ?? '') && record;
  });
  expect(model.requests().at(-1)?.authorization).toBe(`Bearer ${key}`);
}

const resources = async (): Promise<string> => {
  const kinds =
    'conversations,sandboxes,sandboxtemplates,pods,events,persistentvolumeclaims,secrets';
  const { code, stdout, stderr } = await kubectl(up.kubeconfig, ['get', kinds, '-o', 'json']);
  if (code !== 0) throw new Error(stderr);
  return stdout;
};

/** Every file of the installation: volumes of sandboxes, logs, archives, the store of resources. */
async function files(): Promise<readonly string[]> {
  const entries = await readdir(up.dataDir, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const filesWith = async (secrets: Readonly<Record<string, string>>): Promise<readonly string[]> =>
  (await files()).filter((path) => leaksIn(readFileSync(path, 'latin1'), secrets).length > 0);

const agentsWith = (text: string): readonly number[] =>
  up.agentProcesses().filter((pid) => memoryHas(pid, text));

it('the key of a model is in the gateway alone: in no process, file, log and resource of a sandbox', async () => {
  await talk();
  const { items } = JSON.parse(await resources()) as {
    readonly items: readonly {
      readonly kind: string;
      readonly metadata: { readonly uid: string; readonly name: string };
    }[];
  };
  const sandbox = items.find(({ kind }) => kind === 'Sandbox');
  const conversation = items.find(({ kind }) => kind === 'Conversation');
  const masterKey = Buffer.from(readFileSync(join(up.dataDir, 'master-key'), 'utf8'), 'hex');
  const token = new SandboxKeys([masterKey]).modelsToken(
    sandbox?.metadata.uid ?? '',
    conversation?.metadata.name ?? '',
  );
  // The agent has its token, so the search finds what there is.
  expect(agentsWith(token)).toHaveLength(1);
  expect(agentsWith(key)).toEqual([]);
  expect(await filesWith({ key, token })).toEqual([]);
  expect(leaksIn(await resources(), { key, token })).toEqual([]);
  expect(leaksIn(up.output, { key, token })).toEqual([]);
});

it('the key is in the agent of a template that does not use the gateway for it', async () => {
  const patch = JSON.stringify({ spec: { models: { relay: false } } });
  const { code, stderr } = await kubectl(up.kubeconfig, [
    ...['patch', 'sandboxtemplate', 'default', '--type=merge', '-p', patch],
  ]);
  expect([code, stderr]).toEqual([0, '']);
  await talk();
  expect(agentsWith(key)).toHaveLength(1);
  expect(leaksIn(await resources(), { key })).toEqual([]);
});
