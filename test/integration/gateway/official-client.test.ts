import { CloudClient } from '@openhands/typescript-client/clients';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

describe('the official client', () => {
  let gateway: TestGateway;
  let client: CloudClient;
  beforeAll(async () => {
    gateway = await TestGateway.start();
    client = new CloudClient({ host: gateway.url, apiKey: gateway.alice });
  });
  afterAll(() => gateway.stop());

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
