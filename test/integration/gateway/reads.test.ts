import { TransportError } from '@conversation-operator/kube/errors';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { dashedUuid, newUuid } from '@conversation-operator/base/uuid';
import { startTaskIdOf } from '../../../src/resources/ids.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations';

describe('reading conversations', () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(() => gateway.stop());

  const ids = (answer: Answer) =>
    (answer.json as readonly ({ id: string } | null)[]).map((record) => record?.id);
  const page = (answer: Answer) =>
    answer.json as { items: { id: string; title: string }[]; next_page_id: string | null };
  const uuids = (count: number) =>
    Array.from({ length: count }, (_none, index) => newUuid(Date.now() + index));
  /** Stored, but unknown to every cache of this gateway. */
  const addUnseen = async (name: string, owner = 'alice') => {
    await gateway.fallBehind();
    await gateway.client.create(conversations, {
      apiVersion,
      kind: 'Conversation',
      metadata: { namespace, name },
      spec: { owner, templateName: 'default' },
    });
  };

  describe('by id', () => {
    it('gives them in the order asked, without the unknown, in both forms of an id', async () => {
      const [a = '', b = '', unknown = ''] = uuids(3);
      await gateway.addConversation(a);
      await gateway.addConversation(b);
      expect(
        ids(
          await gateway.get(`${base}?ids=${dashedUuid(b)}&ids=${unknown}&ids=${a.toUpperCase()}`),
        ),
      ).toEqual([b, a]);
      expect(
        ids(
          await gateway.get(
            `${base}/start-tasks?ids=${startTaskIdOf(a)}&ids=${startTaskIdOf(unknown)}&ids=${startTaskIdOf(b)}`,
          ),
        ),
      ).toEqual([startTaskIdOf(a), startTaskIdOf(b)]);
    });

    it('gives an empty array when none is found', async () => {
      expect(await gateway.get(`${base}?ids=${newUuid(0)}`)).toMatchObject({
        status: 200,
        text: '[]',
      });
    });

    it('gives one that the cache does not know yet', async () => {
      const [id = ''] = uuids(1);
      await addUnseen(id);
      expect(ids(await gateway.get(`${base}?ids=${id}`))).toEqual([id]);
      expect(ids(await gateway.get(`${base}/start-tasks?ids=${startTaskIdOf(id)}`))).toEqual([
        startTaskIdOf(id),
      ]);
    });

    it('serves one that was applied with kubectl under a name of its own', async () => {
      await gateway.addConversation('nightly-upgrade');
      const { id = '' } = page(await gateway.get(`${base}/search`)).items[0] ?? {};
      expect(id).toMatch(/^[0-9a-f]{32}$/);
      expect(ids(await gateway.get(`${base}?ids=${id}`))).toEqual([id]);
      expect(await gateway.send('DELETE', `${base}/${id}`)).toMatchObject({ status: 200 });
      expect(ids(await gateway.get(`${base}?ids=${id}`))).toEqual([]);
    });

    it.each([
      ['', 422],
      ['ids=', 422],
      ['ids=x', 422],
      [`ids=${newUuid(1)},${newUuid(2)}`, 422],
      [`ids=${newUuid(1)}&ids=nonsense`, 422],
      [Array.from({ length: 100 }, () => `ids=${newUuid(1)}`).join('&'), 200],
      [Array.from({ length: 101 }, () => `ids=${newUuid(1)}`).join('&'), 400],
    ])('?%.40s is answered with %i', async (query, status) => {
      expect(await gateway.get(`${base}?${query}`)).toMatchObject({ status });
      expect(await gateway.get(`${base}/start-tasks?${query}`)).toMatchObject({ status });
    });

    it('answers from the cache when the API server is away, and says 503 for what it can not know', async () => {
      const [id = '', unknown = ''] = uuids(2);
      await gateway.addConversation(id);
      gateway.client.fault = ({ verb }) =>
        verb === 'get' ? new TransportError('gone') : undefined;
      expect(await gateway.get(`${base}?ids=${id}`)).toMatchObject({ status: 200 });
      expect(await gateway.get(`${base}/search`)).toMatchObject({ status: 200 });
      expect(await gateway.get(`${base}?ids=${unknown}`)).toMatchObject({ status: 503 });
    });
  });

  describe('by search', () => {
    it('gives the newest first, page by page, stable while others come and go', async () => {
      const names = uuids(7);
      for (const name of names) await gateway.addConversation(name);
      const newest = names.toReversed();
      const first = page(await gateway.get(`${base}/search?limit=3`));
      expect(first.items.map(({ id }) => id)).toEqual(newest.slice(0, 3));
      await gateway.addConversation(newUuid(Date.now() + 100_000));
      await gateway.send('DELETE', `${base}/${newest[2] ?? ''}`);
      const second = page(
        await gateway.get(`${base}/search?limit=3&page_id=${first.next_page_id ?? ''}`),
      );
      expect(second.items.map(({ id }) => id)).toEqual(newest.slice(3, 6));
      const third = page(
        await gateway.get(`${base}/search?limit=3&page_id=${second.next_page_id ?? ''}`),
      );
      expect(third.items.map(({ id }) => id)).toEqual(newest.slice(6));
      expect(third.next_page_id).toBeNull();
      expect((await gateway.get(`${base}/count`)).json).toBe(7);
      expect((await gateway.get(`${base}/start-tasks/count`)).json).toBe(7);
    });

    it('gives as many as there are when nothing is said about the limit, up to 100', async () => {
      for (const name of uuids(101)) await gateway.addConversation(name);
      const { items, next_page_id } = page(await gateway.get(`${base}/search`));
      expect(items).toHaveLength(100);
      expect(next_page_id).not.toBeNull();
      expect(page(await gateway.get(`${base}/start-tasks/search?limit=1`)).items).toHaveLength(1);
    });

    it.each([
      ['limit=1', 200],
      ['limit=100', 200],
      ['limit=0', 422],
      ['limit=101', 422],
      ['limit=-1', 422],
      ['limit=1.5', 422],
      ['limit=ten', 422],
      ['limit=', 422],
      ['page_id=nonsense', 422],
      ['page_id=', 422],
      ['sort_order=UPDATED_AT_DESC', 200],
      ['sort_order=CREATED_AT', 200],
      ['sort_order=TITLE', 200],
      ['sort_order=SIZE', 422],
      ['created_at__gte=2026-01-01T00:00:00Z', 200],
      ['created_at__gte=2026-01-01T00:00:00+02:00', 200],
      ['created_at__gte=2026-01-01', 200],
      ['created_at__lt=yesterday', 422],
      ['updated_at__gte=2026-13-01', 422],
      ['something_else=1', 422],
    ])('?%s is answered with %i', async (query, status) => {
      expect(await gateway.get(`${base}/search?${query}`)).toMatchObject({ status });
    });

    it('filters', async () => {
      const [a = '', b = ''] = uuids(2);
      await gateway.addConversation(a, {
        spec: { title: 'Fix the Login' },
        status: { sandboxName: 'sbx-9', lastActivityTime: '2099-01-01T00:00:00Z' },
      });
      await gateway.addConversation(b);
      const found = async (query: string) =>
        page(await gateway.get(`${base}/search?${query}`)).items.map(({ id }) => id);
      expect(await found('title__contains=login')).toEqual([a]);
      expect(await found('sandbox_id__eq=sbx-9')).toEqual([a]);
      expect(await found('updated_at__gte=2098-01-01T00:00:00Z')).toEqual([a]);
      expect(await found('updated_at__lt=2098-01-01T00:00:00Z')).toEqual([b]);
      expect(await found('created_at__lt=2001-01-01')).toEqual([]);
      expect(await found('sort_order=UPDATED_AT_DESC')).toEqual([a, b]);
      expect(await found('sort_order=UPDATED_AT')).toEqual([b, a]);
      expect((await gateway.get(`${base}/count?title__contains=LOGIN`)).json).toBe(1);
      expect(
        page(await gateway.get(`${base}/start-tasks/search?conversation_id__eq=${a}`)).items.map(
          ({ id }) => id,
        ),
      ).toEqual([startTaskIdOf(a)]);
    });

    it('refuses the cursor of another order', async () => {
      for (const name of uuids(2)) await gateway.addConversation(name);
      const { next_page_id } = page(await gateway.get(`${base}/search?limit=1`));
      expect(
        await gateway.get(`${base}/search?limit=1&sort_order=TITLE&page_id=${next_page_id ?? ''}`),
      ).toMatchObject({ status: 422 });
    });
  });

  describe('after a change', () => {
    it('shows the new title, flag and tags at once', async () => {
      const [id = ''] = uuids(1);
      await gateway.addConversation(id, { spec: { tags: { old: '1' } } });
      const change = { title: 'New', public: true, tags: { team: 'a' } };
      expect(await gateway.send('PATCH', `${base}/${id}`, { body: change })).toMatchObject({
        status: 200,
        json: { title: 'New', public: true, tags: { team: 'a' } },
      });
      expect((await gateway.get(`${base}?ids=${id}`)).json).toMatchObject([
        { title: 'New', public: true, tags: { team: 'a' } },
      ]);
      expect(await gateway.send('PATCH', `${base}/${id}`, { body: {} })).toMatchObject({
        status: 200,
        json: { title: 'New' },
      });
    });

    it.each<[string, unknown, number]>([
      ['an empty title', { title: '' }, 422],
      ['a long title', { title: 'x'.repeat(201) }, 422],
      ['a public flag of text', { public: 'yes' }, 422],
      ['a title of null, which changes nothing', { title: null }, 200],
    ])('answers %s', async (_case, body, status) => {
      const [id = ''] = uuids(1);
      await gateway.addConversation(id);
      expect(await gateway.send('PATCH', `${base}/${id}`, { body })).toMatchObject({ status });
    });

    it('is gone when deleted', async () => {
      const [id = ''] = uuids(1);
      await gateway.addConversation(id);
      expect(await gateway.send('DELETE', `${base}/${id}`)).toMatchObject({
        status: 200,
        json: { success: true },
      });
      expect(await gateway.get(`${base}?ids=${id}`)).toMatchObject({ text: '[]' });
      expect(await gateway.send('DELETE', `${base}/${id}`)).toMatchObject({ status: 404 });
      expect(await gateway.send('DELETE', `${base}/not-an-id`)).toMatchObject({ status: 422 });
    });
  });
});
