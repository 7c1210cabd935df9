import { CloudClient } from '@openhands/typescript-client/clients';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

describe('the official client', () => {
  let gateway: TestGateway;
  let client: CloudClient;
  beforeAll(async () => {
    gateway = await TestGateway.start();
    client = new CloudClient({ host: gateway.url, apiKey: gateway.alice });
  });
  afterAll(() => gateway.stop());

  it('starts, polls, lists, pauses, resumes, shares and deletes a conversation', async () => {
    const task = await client.createConversation({
      initial_message: { content: [{ type: 'text', text: 'Hello' }] },
      selected_repository: 'acme/shop',
      trigger: 'gui',
    });
    expect(task).toMatchObject({
      status: 'WORKING',
      app_conversation_id: null,
      request: { selected_repository: 'acme/shop' },
    });
    expect(await client.getConversationStartTask(task.id)).toEqual(task);

    const { items } = await client.searchConversations();
    const id = items[0]?.id ?? '';
    await gateway.addSandbox(`sbx-${id}`);
    await gateway.setStatus(id, {
      sandboxName: `sbx-${id}`,
      start: { status: 'READY', transitions: [{ status: 'READY', time: '2026-01-01T00:00:00Z' }] },
    });
    expect(await client.getConversationStartTask(task.id)).toMatchObject({
      status: 'READY',
      app_conversation_id: id,
      sandbox_id: `sbx-${id}`,
    });
    expect(await client.getConversations([id])).toMatchObject([
      { id, title: 'Hello', sandbox_status: 'STARTING', execution_status: null },
    ]);

    await client.pauseSandbox(`sbx-${id}`);
    expect((await gateway.client.get(sandboxes, namespace, `sbx-${id}`)).spec.replicas).toBe(0);
    expect(await client.getSandboxes([`sbx-${id}`, 'sbx-none'])).toMatchObject([
      { id: `sbx-${id}`, status: 'PAUSED' },
      null,
    ]);
    await client.resumeSandbox(`sbx-${id}`);
    expect((await gateway.client.get(sandboxes, namespace, `sbx-${id}`)).spec.replicas).toBe(1);

    expect(await client.updateConversationPublicFlag(id, true)).toMatchObject({ id, public: true });
    await client.deleteConversation(id);
    expect(await client.getConversations([id])).toEqual([]);
  });

  it('gets page after page', async () => {
    for (let index = 0; index < 5; index++)
      await client.createConversation({ initial_message: null });
    const seen: string[] = [];
    let pageId: string | undefined;
    do {
      const { items, next_page_id } = await client.searchConversations(2, pageId);
      seen.push(...items.map(({ id }) => id));
      pageId = next_page_id ?? undefined;
    } while (pageId !== undefined);
    expect(new Set(seen).size).toBe(5);
    expect(seen).toHaveLength(5);
  });

  it('learns whose key it has, and reads the detail of an error', async () => {
    expect(await client.getCurrentApiKey()).toMatchObject({ user_id: 'alice' });
    await expect(
      new CloudClient({ host: gateway.url, apiKey: 'wrong' }).getCurrentApiKey(),
    ).rejects.toMatchObject({
      status: 401,
      response: { detail: 'The API key is missing or not valid.' },
    });
    await expect(client.pauseSandbox('sbx-none')).rejects.toMatchObject({
      status: 404,
      response: { detail: 'There is no such sandbox.' },
    });
  });
});
