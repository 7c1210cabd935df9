import { ownerReferenceTo } from '@conversation-operator/kube/object';
import {
  isRunRequested,
  resumeRequestedAnnotation,
  sandboxes,
  type SandboxState,
} from '../../../src/resources/sandbox.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';
import { unknownOutcomes } from '../../support/unknown-outcomes.ts';

const base = '/api/v1/sandboxes';
const is = (type: string, status: 'True' | 'False', reason: string) => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const running: SandboxState = {
  conditions: [is('Admitted', 'True', 'Admitted'), is('Ready', 'True', 'Running')],
};
const pausedByQuota: SandboxState = { conditions: [is('Admitted', 'False', 'Quota')] };
const failed: SandboxState = { conditions: [is('Failed', 'True', 'CrashLoop')] };

describe('sandboxes', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({ publicUrl: 'https://agents.example/' });
  });
  afterAll(() => gateway.stop());

  let count = 0;
  const add = (status?: SandboxState, replicas: 0 | 1 = 1) => {
    count += 1;
    return gateway.addSandbox(`sbx-${count}`, {
      replicas,
      ...(status === undefined ? {} : { status }),
    });
  };
  const stored = (name: string) => gateway.client.get(sandboxes, namespace, name);

  it('are started from the default spec without a body', async () => {
    const answer = await gateway.post(base, undefined, {
      headers: { 'content-type': 'application/json' },
    });
    expect(answer).toMatchObject({
      status: 200,
      json: {
        status: 'STARTING',
        sandbox_spec_id: 'default',
        session_api_key: null,
        exposed_urls: [],
      },
    });
    const { id } = answer.json as { id: string };
    expect(await stored(id)).toMatchObject({
      spec: { owner: 'alice', templateName: 'default', replicas: 1 },
    });
    expect((await gateway.get(`${base}?id=${id}`)).json).toMatchObject([{ id }]);
  });

  it('are not changed by their owner once their conversation moves to another one', async () => {
    const { metadata } = await add(running);
    await gateway.addConversation('moving', {
      spec: { handover: { name: 'handover', to: 'bob' } },
      status: { sandboxName: metadata.name, sandboxUID: metadata.uid },
    });
    for (const action of ['pause', 'resume', 'rotate-key'])
      expect(await gateway.post(`${base}/${metadata.name}/${action}`)).toMatchObject({
        status: 409,
      });
    expect(await gateway.send('DELETE', `${base}/${metadata.name}`)).toMatchObject({ status: 409 });
    const { resourceVersion } = (await stored(metadata.name)).metadata;
    expect(resourceVersion).toBe(metadata.resourceVersion);
  });

  it.each(unknownOutcomes)('are started once by a write that ends with %s', async (_s, errorOf) => {
    const before = (await gateway.client.list(sandboxes, { namespace })).items.length;
    const create = gateway.client.create.bind(gateway.client);
    Object.assign(gateway.client, {
      create: async (...parameters: Parameters<typeof create>) => {
        Object.assign(gateway.client, { create });
        await create(...parameters);
        throw errorOf();
      },
    });
    const answer = await gateway.post(`${base}?sandbox_spec_id=default`);
    expect(answer).toMatchObject({ status: 200, json: { status: 'STARTING' } });
    const after = (await gateway.client.list(sandboxes, { namespace })).items;
    expect(after).toHaveLength(before + 1);
  });

  it('are started from the spec named, and not from an unknown one', async () => {
    expect(await gateway.post(`${base}?sandbox_spec_id=default`)).toMatchObject({ status: 200 });
    expect(await gateway.post(`${base}?sandbox_spec_id=huge`)).toMatchObject({
      status: 404,
      json: { code: 'not-found' },
    });
  });

  it('are read by id in the order asked, null for the unknown', async () => {
    const a = await add(running);
    const b = await add();
    const { json } = await gateway.get(
      `${base}?id=${b.metadata.name}&id=sbx-unknown&id=${a.metadata.name}`,
    );
    expect(json).toMatchObject([
      { id: b.metadata.name, session_api_key: null, exposed_urls: [] },
      null,
      {
        id: a.metadata.name,
        status: 'RUNNING',
        session_api_key: gateway.sessionKeyOf(a),
        exposed_urls: [
          {
            name: 'AGENT_SERVER',
            url: `https://agents.example/sandboxes/${a.metadata.name}/AGENT_SERVER`,
            port: 8000,
          },
        ],
      },
    ]);
    expect(await gateway.get(base)).toMatchObject({ status: 422 });
  });

  it('are searched page by page', async () => {
    await add();
    await add();
    const first = (await gateway.get(`${base}/search?limit=1`)).json as {
      items: { id: string }[];
      next_page_id: string;
    };
    const second = (await gateway.get(`${base}/search?limit=1&page_id=${first.next_page_id}`))
      .json as { items: { id: string }[] };
    expect(first.items).toHaveLength(1);
    expect(second.items[0]?.id).not.toBe(first.items[0]?.id);
  });

  it('are paused and resumed by what a person wants, and it shows at once', async () => {
    const { metadata } = await add(running);
    const url = `${base}/${metadata.name}`;
    expect(await gateway.post(`${url}/pause`, {})).toMatchObject({
      status: 200,
      json: { success: true },
    });
    expect((await stored(metadata.name)).spec.replicas).toBe(0);
    expect((await gateway.get(`${base}?id=${metadata.name}`)).json).toMatchObject([
      { status: 'PAUSED', session_api_key: null },
    ]);
    expect(await gateway.post(`${url}/pause`)).toMatchObject({ status: 200 });
    expect(await gateway.post(`${url}/resume`, {})).toMatchObject({
      status: 200,
      json: { success: true },
    });
    expect((await stored(metadata.name)).spec.replicas).toBe(1);
    expect(await gateway.post(`${url}/resume`)).toMatchObject({ status: 200 });
  });

  it('end as the last of many requests wants, when pause and resume follow each other closely', async () => {
    const { metadata } = await add(running);
    for (let round = 0; round < 10; round++) {
      await gateway.post(`${base}/${metadata.name}/pause`);
      await gateway.post(`${base}/${metadata.name}/resume`);
      expect((await stored(metadata.name)).spec.replicas).toBe(1);
    }
  });

  it('notify the quota that a person wants them back', async () => {
    const { metadata } = await add(pausedByQuota);
    const before = Date.now();
    await gateway.post(`${base}/${metadata.name}/resume`);
    const requested =
      (await stored(metadata.name)).metadata.annotations?.[resumeRequestedAnnotation] ?? '';
    expect(Date.parse(requested)).toBeGreaterThanOrEqual(before);
  });

  describe('resumed with {"run": true}', () => {
    const isAsked = async (name: string) => isRunRequested(await stored(name));

    it('get the request to resume what their owner has stopped, until their owner pauses them again, by any means', async () => {
      const { metadata } = await add(running);
      const url = `${base}/${metadata.name}`;
      await gateway.post(`${url}/pause`);
      expect(await isAsked(metadata.name)).toBe(false);
      expect(await gateway.post(`${url}/resume`, { run: true })).toMatchObject({
        status: 200,
        json: { success: true },
      });
      expect(await isAsked(metadata.name)).toBe(true);
      await gateway.post(`${url}/resume`);
      expect(await isAsked(metadata.name)).toBe(true);
      await gateway.client.mergePatch(sandboxes, namespace, metadata.name, {
        spec: { replicas: 0 },
      });
      expect(await isAsked(metadata.name)).toBe(false);
      await gateway.post(`${url}/resume`, { run: false });
      expect(await isAsked(metadata.name)).toBe(false);
    });

    it('may be so when they run already', async () => {
      const { metadata } = await add(running);
      await gateway.post(`${base}/${metadata.name}/resume`, { run: true });
      expect(await isAsked(metadata.name)).toBe(true);
    });

    it('are so whichever process changes them at the same time', async () => {
      const { metadata } = await add(running);
      const url = `${base}/${metadata.name}`;
      for (let round = 0; round < 5; round++) {
        await gateway.post(`${url}/pause`);
        await Promise.all([
          gateway.post(`${url}/resume`, { run: true }),
          gateway.post(`${url}/resume`),
        ]);
        expect(await isAsked(metadata.name)).toBe(true);
      }
    });

    it.each([
      [{ run: 'yes' }, 422],
      [{ run: null }, 200],
      [{}, 200],
    ])('%j is answered with %i', async (body, status) => {
      const { metadata } = await add(running);
      expect(await gateway.post(`${base}/${metadata.name}/resume`, body)).toMatchObject({ status });
    });
  });

  it.each<[string, SandboxState | undefined, number]>([
    ['that is starting', undefined, 200],
    ['that runs', running, 200],
    ['that the quota has paused', pausedByQuota, 200],
    ['that has failed', failed, 409],
  ])('one %s is paused and resumed', async (_case, status, expected) => {
    const { metadata } = await add(status);
    expect(await gateway.post(`${base}/${metadata.name}/pause`)).toMatchObject({
      status: expected,
    });
    expect(await gateway.post(`${base}/${metadata.name}/resume`)).toMatchObject({
      status: expected,
    });
  });

  it('one that has failed after it had run is resumed, and is STARTING as soon as that is stored', async () => {
    const { metadata } = await add({ ...failed, lastContainerID: 'process://1' });
    expect(await gateway.post(`${base}/${metadata.name}/pause`)).toMatchObject({ status: 409 });
    expect(await gateway.post(`${base}/${metadata.name}/resume`)).toMatchObject({
      status: 200,
      json: { success: true },
    });
    expect((await gateway.get(`${base}?id=${metadata.name}`)).json).toMatchObject([
      { status: 'STARTING' },
    ]);
  });

  it('one that was made for a start that has failed is not resumed', async () => {
    const conversation = await gateway.addConversation(newUuid(Date.now()), {
      status: {
        start: {
          status: 'ERROR',
          transitions: [],
          errorCode: 'BranchNotFound',
          error: 'No such branch.',
        },
      },
    });
    const { metadata } = await add({ ...failed, lastContainerID: 'process://1' });
    const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];
    const owned = await gateway.client.mergePatch(sandboxes, namespace, metadata.name, {
      metadata: { ownerReferences },
    });
    await gateway.seen(gateway.caches.sandboxes, owned);
    expect(await gateway.post(`${base}/${metadata.name}/resume`)).toMatchObject({
      status: 409,
      json: { code: 'wrong-state' },
    });
  });

  it('are gone when deleted', async () => {
    const { metadata } = await add(running);
    const url = `${base}/${metadata.name}?sandbox_id=${metadata.name}`;
    expect(await gateway.send('DELETE', url)).toMatchObject({
      status: 200,
      json: { success: true },
    });
    expect((await gateway.get(`${base}?id=${metadata.name}`)).json).toEqual([null]);
    expect(await gateway.send('DELETE', url)).toMatchObject({ status: 404 });
    expect(await gateway.post(`${base}/${metadata.name}/pause`)).toMatchObject({ status: 404 });
  });

  it.each(['unknown', '..', '%2e%2e%2fsecrets', 'UPPER', 'a'.repeat(300), '%00'])(
    '%.20s is not found',
    async (id) => {
      for (const action of ['pause', 'resume'])
        expect((await gateway.post(`${base}/${id}/${action}`)).status).toBe(404);
    },
  );

  it('let their conversations show how to reach them', async () => {
    const sandbox = await add(running);
    const { metadata } = sandbox;
    const id = newUuid(Date.now());
    await gateway.addConversation(id, {
      status: {
        sandboxName: metadata.name,
        executionStatus: 'running',
        start: {
          status: 'READY',
          transitions: [{ status: 'READY', time: '2026-01-01T00:00:00Z' }],
        },
      },
    });
    expect((await gateway.get(`/api/v1/app-conversations?ids=${id}`)).json).toMatchObject([
      {
        sandbox_status: 'RUNNING',
        execution_status: 'running',
        conversation_url: `https://agents.example/sandboxes/${metadata.name}/AGENT_SERVER/api/conversations/${id}`,
        session_api_key: gateway.sessionKeyOf(sandbox),
      },
    ]);
  });

  it('have specs that show no values of Secrets', async () => {
    const expected = {
      id: 'default',
      image: 'agent:1',
      display_name: 'Default',
      working_dir: '/workspace',
      initial_env: { LEVEL: 'info' },
      agent: { kind: 'openhands', name: 'openhands', asks: false },
      default_model: null,
      allowed_models: null,
      invalid_reason: null,
    };
    expect((await gateway.get('/api/v1/sandbox-specs/search')).json).toMatchObject({
      items: [expected],
      next_page_id: null,
    });
    expect((await gateway.get('/api/v1/sandbox-specs?id=default&id=huge')).json).toMatchObject([
      expected,
      null,
    ]);
  });
});
