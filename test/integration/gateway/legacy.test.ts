import { conversations } from '../../../src/resources/conversation.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const path = '/api/conversations';

const expectMarked = ({ headers }: Answer) => {
  expect(headers['deprecation']).toBe('@1764547200');
  expect(headers['sunset']).toBe('Wed, 01 Apr 2026 00:00:00 GMT');
  expect(headers['link']).toMatch(
    /^<http:\/\/127\.0\.0\.1:\d+\/api\/v1\/app-conversations>; rel="successor-version"$/,
  );
};

describe('the legacy interface', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterAll(() => gateway.stop());

  it('answers with the id of the conversation at once', async () => {
    const answer = await gateway.post(path, {
      initial_user_msg: 'Fix it',
      repository: 'acme/shop',
      selected_branch: 'main',
      git_provider: 'gitlab',
      image_urls: ['https://x/y.png'],
      conversation_instructions: 'Be brief.',
    });
    expect(answer).toMatchObject({
      status: 200,
      json: { status: 'ok', message: null, conversation_status: 'STARTING' },
    });
    expectMarked(answer);
    const { conversation_id: id } = answer.json as { conversation_id: string };
    expect((await gateway.client.get(conversations, namespace, id)).spec).toMatchObject({
      initialMessage: {
        content: [
          { type: 'text', text: 'Fix it' },
          { type: 'image', imageUrls: ['https://x/y.png'] },
        ],
      },
      repository: { name: 'acme/shop', branch: 'main', provider: 'gitlab' },
      agent: { systemMessageSuffix: 'Be brief.' },
    });
    const one = await gateway.get(`${path}/${id}`);
    expect(one).toMatchObject({ status: 200, json: { conversation_id: id, status: 'STARTING' } });
    expectMarked(one);
    expect((await gateway.get(`${path}?limit=1`)).json).toMatchObject({
      results: [{ conversation_id: id }],
      next_page_id: null,
    });
  });

  it.each<[string, unknown, number]>([
    ['an unknown field', { initial_user_msg: 'x', initial_message: {} }, 422],
    ['a message that is no text', { initial_user_msg: 7 }, 422],
    ['a repository that is none', { initial_user_msg: 'x', repository: 'shop' }, 422],
    ['a message alone', { initial_user_msg: 'x' }, 200],
    ['nulls', { initial_user_msg: 'x', repository: null, image_urls: null }, 200],
  ])('answers %s and is marked as deprecated', async (_case, body, status) => {
    const answer = await gateway.post(path, body);
    expect(answer.status).toBe(status);
    expectMarked(answer);
  });

  it.each([
    ['POST', path, 401],
    ['PUT', path, 405],
    ['GET', `${path}/x/y`, 404],
  ])('marks also %s %s, answered with %i', async (method, target, status) => {
    const answer = await gateway.send(method, target, { key: null });
    expect(answer.status).toBe(status);
    expectMarked(answer);
  });

  it('says 410 where it is switched off', async () => {
    const off = await TestGateway.start({ legacyApi: false });
    try {
      const answer = await off.post(path, { initial_user_msg: 'x' });
      expect(answer).toMatchObject({ status: 410, json: { code: 'legacy-api-removed' } });
      expectMarked(answer);
      expect(await off.get('/api/v1/app-conversations/count')).toMatchObject({
        status: 200,
        json: 0,
      });
    } finally {
      await off.stop();
    }
  });
});
