import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;
const k = (args: string, input?: string) => kubectl(up.kubeconfig, args.split(' '), input);

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  expect(await up.stop()).toBe(0);
});

const create = async (name: string, text: string): Promise<void> => {
  const spec = { owner: 'local', initialMessage: { content: [{ type: 'text', text }] } };
  const manifest = {
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'Conversation',
    metadata: { name },
    spec,
  };
  expect(await k('create -f -', JSON.stringify(manifest))).toMatchObject({ code: 0 });
};
const waitFor = (condition: string, object: string, timeout = '90s') =>
  k(`wait --for=condition=${condition} ${object} --timeout=${timeout}`);
const met = (object: string) => ({
  code: 0,
  stderr: '',
  stdout: expect.stringMatching(`${object} condition met`) as unknown,
});
const field = async (object: string, path: string): Promise<string> =>
  (await k(`get ${object} -o jsonpath=${path}`)).stdout;
const reasonOf = (object: string, type: string) =>
  field(object, `{.status.conditions[?(@.type=="${type}")].reason}`);

it('kubectl wait sees a conversation become ready, come to its end, and pause and resume', async () => {
  const go = join(up.dataDir, 'go');
  await create(
    'waited',
    `Work for a while:\n\`\`\`sh\nwhile [ ! -e ${go} ]; do sleep 0.1; done\n\`\`\``,
  );
  // Before the operator has seen the conversation, which then has no conditions.
  expect(await waitFor('Ready', 'conversation/waited')).toEqual(met('waited'));
  expect(await reasonOf('conversation/waited', 'Finished')).toBe('Active');
  writeFileSync(go, '');
  expect(await waitFor('Finished', 'conversation/waited')).toEqual(met('waited'));
  expect(await reasonOf('conversation/waited', 'Finished')).toBe('Finished');
  const sandbox = `sandbox/${await field('conversation/waited', '{.status.sandboxName}')}`;
  expect(await waitFor('Ready', sandbox)).toEqual(met(sandbox.slice('sandbox/'.length)));
  expect(await waitFor('Paused', 'conversation/waited', '1s')).toMatchObject({ code: 1 });

  expect(await k(`scale ${sandbox} --replicas=0`)).toMatchObject({ code: 0 });
  expect(await waitFor('Paused', 'conversation/waited')).toEqual(met('waited'));
  expect(await reasonOf('conversation/waited', 'Paused')).toBe('User');
  expect(await waitFor('Ready=false', 'conversation/waited')).toEqual(met('waited'));
  expect(await reasonOf('conversation/waited', 'Ready')).toBe('SandboxPaused');
  expect(await waitFor('Paused', sandbox)).toMatchObject({ code: 0 });

  expect(await k(`scale ${sandbox} --replicas=1`)).toMatchObject({ code: 0 });
  expect(await waitFor('Ready', 'conversation/waited')).toEqual(met('waited'));
  expect(await waitFor('Paused=false', sandbox)).toMatchObject({ code: 0 });
  expect(await reasonOf('conversation/waited', 'Paused')).toBe('NotPaused');
});

it('kubectl wait for the end of a conversation that has just received a message waits for the run of that message', async () => {
  await create('continued', 'Nothing to do.');
  expect(await waitFor('Finished', 'conversation/continued')).toEqual(met('continued'));
  const text = 'More:\n```sh\nsleep 1; echo done > /dev/null\n```';
  const message = {
    number: 1,
    id: 'one',
    role: 'user',
    run: true,
    content: [{ type: 'text', text }],
  };
  const patch = JSON.stringify({ spec: { messages: [message] } });
  const patched = await kubectl(up.kubeconfig, [
    'patch',
    'conversation/continued',
    '--type=merge',
    '-p',
    patch,
  ]);
  expect(patched).toMatchObject({ code: 0 });
  expect(await waitFor('Finished', 'conversation/continued')).toEqual(met('continued'));
  expect(
    await field(
      'conversation/continued',
      '{.status.messages.lastDelivered}/{.status.executionStatus}',
    ),
  ).toBe('1/finished');
});

it('a start that fails is not ready, and finished', async () => {
  const spec = { owner: 'local', templateName: 'nothing' };
  const manifest = {
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'Conversation',
    metadata: { name: 'failed' },
    spec,
  };
  expect(await k('create -f -', JSON.stringify(manifest))).toMatchObject({ code: 0 });
  expect(await waitFor('Finished', 'conversation/failed')).toEqual(met('failed'));
  expect(await waitFor('Ready=false', 'conversation/failed')).toEqual(met('failed'));
  expect(await reasonOf('conversation/failed', 'Ready')).toBe('StartFailed');
  expect(
    await field('conversation/failed', '{.status.conditions[?(@.type=="Ready")].message}'),
  ).toBe('The start has failed: TemplateNotFound.');
});

it('kubectl get shows the title first, shortened', async () => {
  await create(
    'titled',
    'Find out why the parser fails on nested comments, and mend it without a change of the test.',
  );
  expect(await waitFor('Finished', 'conversation/titled')).toEqual(met('titled'));
  const [head = '', row = ''] = (await k('get conversation titled')).stdout.trim().split('\n');
  expect(head.split(/\s+/)).toEqual([
    'NAME',
    'TITLE',
    'SANDBOX',
    'EXECUTION',
    'APPROVAL',
    'START',
    'REPOSITORY',
    'PR',
    'OWNER',
    'AGE',
  ]);
  const title = await field('conversation/titled', '{.status.shortTitle}');
  expect(row.split(/ {3,}/)).toEqual([
    'titled',
    title,
    'RUNNING',
    'finished',
    'READY',
    'local',
    expect.stringMatching(/^\d+s$/),
  ]);
  expect(title).toMatch(/^Find out why/);
  expect(title.length).toBeLessThanOrEqual(40);
});
