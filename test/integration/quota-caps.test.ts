import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  await up.stop();
});

const k = async (args: readonly string[], input?: string): Promise<string> => {
  const { code, stdout, stderr } = await kubectl(up.kubeconfig, args, input);
  if (code !== 0) throw new Error(stderr);
  return stdout;
};
const limits = (spec: object) =>
  k(['patch', 'cq', 'default', '--type', 'merge', '-p', JSON.stringify({ spec })]);
const made = (kind: string, name: string, spec: object) => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind,
  metadata: { name, namespace: 'default' },
  spec: { owner: 'carol', ...spec },
});
const conversation = (name: string) =>
  made('Conversation', name, {
    initialMessage: { role: 'user', content: [{ type: 'text', text: '```sh\necho hello\n```' }] },
  });
const apply = async (...items: readonly object[]) => {
  for (const item of items) await k(['apply', '-f', '-'], JSON.stringify(item));
};
const started = z.object({
  status: z.object({
    start: z.object({
      status: z.string(),
      errorCode: z.string().optional(),
      error: z.string().optional(),
    }),
  }),
});
const endOf = (name: string) =>
  eventually(`the start of ${name} over`, async () => {
    const found = started.safeParse(
      JSON.parse(await k(['get', 'conversation', name, '-o', 'json'])),
    );
    const start = found.data?.status.start;
    return start?.status === 'READY' || start?.status === 'ERROR' ? start : undefined;
  });
const counts = () =>
  k(['get', 'cq', 'default', '-o', 'jsonpath={.status.conversations}/{.status.sandboxes}']);

it('accepts no more of what kubectl makes than a quota lets be stored, and loses nothing when that is lowered', async () => {
  await limits({ maxConversations: 2, maxSandboxes: 3 });
  await apply(conversation('first'), conversation('second'), conversation('third'));
  const ends = await Promise.all(['first', 'second', 'third'].map(endOf));
  expect(ends.map(({ status }) => status).sort()).toEqual(['ERROR', 'READY', 'READY']);
  expect(ends.find(({ status }) => status === 'ERROR')).toMatchObject({
    errorCode: 'ConversationLimitExceeded',
    error:
      'The quota default allows 2 stored conversations per owner, and 2 are there. Delete some, then start again.',
  });
  // No sandbox was made for the conversation that was refused.
  expect((await k(['get', 'sandboxes', '-o', 'name'])).trim().split('\n')).toHaveLength(2);
  await eventually('the counts', async () => (await counts()) === '3/2');

  await limits({ maxConversations: 1, maxSandboxes: 3 });
  await apply(conversation('fourth'));
  expect(await endOf('fourth')).toMatchObject({
    status: 'ERROR',
    errorCode: 'ConversationLimitExceeded',
  });
  const [kept = ''] = ['first', 'second', 'third'].filter(
    (_, index) => ends[index]?.status === 'READY',
  );
  expect(await endOf(kept)).toMatchObject({ status: 'READY' });

  // Those in ERROR are stored too: room is where enough are deleted.
  await limits({ maxConversations: 2 });
  const [refused = ''] = ['first', 'second', 'third'].filter(
    (_, index) => ends[index]?.status === 'ERROR',
  );
  await k(['delete', 'conversation', kept, refused, 'fourth']);
  await eventually('the counts after that', async () => (await counts()) === '1/1');
  await apply(conversation('fifth'));
  expect(await endOf('fifth')).toMatchObject({ status: 'READY' });

  await apply(made('Sandbox', 'one', {}), made('Sandbox', 'two', {}));
  const phases = async () =>
    (
      await k([
        'get',
        'sandboxes',
        'one',
        'two',
        '-o',
        'jsonpath={.items[*].status.phase}/{.items[*].status.reason}',
      ])
    ).split('/');
  await eventually(
    'one of both refused',
    async () => (await phases())[0]?.split(' ').sort().join(' ') === 'ERROR RUNNING',
  );
  expect((await phases())[1]).toContain('SandboxLimitExceeded');
  await eventually('an Event that says so', async () =>
    (await k(['get', 'events', '-o', 'jsonpath={.items[*].reason}'])).includes(
      'SandboxLimitExceeded',
    ),
  );
  expect(await k(['get', 'pvc', '-o', 'name'])).not.toContain('persistentvolumeclaim/two');
});
