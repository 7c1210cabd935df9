import { CloudClient } from '@openhands/typescript-client/clients';
import { eventually } from '../support/eventually.ts';
import { TestedInstallation } from './support/installation.ts';

const up = new TestedInstallation('client');
const client = new CloudClient({ host: up.url, apiKey: up.key });
const withinMs = 60_000;

describe('the official client', () => {
  let id: string;
  let sandbox: string;

  it('starts a conversation and polls until it is READY', async () => {
    const task = await client.createConversation({
      initial_message: {
        content: [{ type: 'text', text: '```sh\necho by the client >kept.txt\n```' }],
      },
      selected_repository: 'acme/shop',
    });
    expect(task.app_conversation_id).toBeNull();
    const ready = await eventually(
      'the start task to be READY',
      async () => {
        const now = await client.getConversationStartTask(task.id);
        if (now?.status === 'ERROR') throw new Error(JSON.stringify(now));
        return now?.status === 'READY' && now;
      },
      withinMs,
    );
    id = ready.app_conversation_id ?? '';
    const [record] = await client.getConversations([id]);
    expect(record).toMatchObject({ id, selected_repository: 'acme/shop' });
    sandbox = record?.sandbox_id ?? '';
  });

  it('lists it', async () => {
    const { items } = await client.searchConversations();
    expect(items.map((item) => item.id)).toEqual([id]);
  });

  it('pauses and resumes its sandbox', async () => {
    const reaches = (status: string) =>
      eventually(
        status,
        async () => (await client.getSandboxes([sandbox]))[0]?.status === status,
        withinMs,
      );
    await reaches('RUNNING');
    await client.pauseSandbox(sandbox);
    await reaches('PAUSED');
    await client.resumeSandbox(sandbox);
    await reaches('RUNNING');
    expect(await up.inSandbox(sandbox, 'cat /workspace/project/kept.txt')).toBe('by the client');
  });

  it('deletes it', async () => {
    await client.deleteConversation(id);
    expect(await client.getConversations([id])).toEqual([]);
    await eventually(
      'its pod to go',
      async () => (await up.k(`get pod ${sandbox} --ignore-not-found`)) === '',
      withinMs,
    );
  });
});
