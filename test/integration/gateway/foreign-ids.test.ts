import { WebSocket } from 'ws';
import { encodeCursor } from '../../../src/gateway/paging/keyset.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { handovers } from '../../../src/resources/handover.ts';
import { startTaskIdOf, uuidOf } from '../../../src/resources/ids.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import { Population } from '../../fuzz/population.ts';
import { answerAsAgent } from '../../support/gateway/asking-agent.ts';
import { openApproval } from '../../support/gateway/open-approval.ts';
import {
  failed,
  namespace,
  ready,
  TwoOwners,
  type Got,
  type Sent,
} from '../../support/gateway/two-owners.ts';
import { operationsOf, type OpenApi, type Operation } from '../../support/openapi/document.ts';
import { idPlacesOf, labelOf, type IdPlace } from '../../support/openapi/id-places.ts';

/** `shared`: belongs to no owner. `own`: each owner has its own. `unused`: nothing reads it. */
type Kind =
  | 'conversation'
  | 'startTask'
  | 'sandbox'
  | 'key'
  | 'handover'
  | 'cursor'
  | 'own'
  | 'shared'
  | 'chosen'
  | 'unused';

/** The kind of each id that the document takes. An operation that is added has to be added here. */
const kinds: Readonly<Record<string, Kind>> = {
  'startConversation header idempotency-key': 'own',
  'startConversation body conversation_id': 'chosen',
  'startConversation body sandbox_id': 'sandbox',
  'startConversation body sandbox_spec_id': 'shared',
  'startConversation body parent_conversation_id': 'conversation',
  'startConversation body agent_profile_id': 'unused',
  'streamStartConversation header idempotency-key': 'own',
  'streamStartConversation body conversation_id': 'chosen',
  'streamStartConversation body sandbox_id': 'sandbox',
  'streamStartConversation body sandbox_spec_id': 'shared',
  'streamStartConversation body parent_conversation_id': 'conversation',
  'streamStartConversation body agent_profile_id': 'unused',
  'getConversations query ids': 'conversation',
  'searchConversations query sandbox_id__eq': 'sandbox',
  'searchConversations query page_id': 'cursor',
  'countConversations query sandbox_id__eq': 'sandbox',
  'updateConversation path id': 'conversation',
  'deleteConversation path id': 'conversation',
  'sendMessage path id': 'conversation',
  'sendMessage header idempotency-key': 'own',
  'listConversationSkills path id': 'conversation',
  'getStartTasks query ids': 'startTask',
  'searchStartTasks query conversation_id__eq': 'conversation',
  'searchStartTasks query page_id': 'cursor',
  'countStartTasks query conversation_id__eq': 'conversation',
  'streamState query last_event_id': 'own',
  'searchEvents path id': 'conversation',
  'searchEvents query page_id': 'own',
  'countEvents path id': 'conversation',
  'getEvents path id': 'conversation',
  'getEvents query id': 'own',
  'listFiles path id': 'conversation',
  'readFile path id': 'conversation',
  'listChanges path id': 'conversation',
  'getDiff path id': 'conversation',
  'downloadConversation path id': 'conversation',
  'downloadFile path id': 'conversation',
  'searchText query page_id': 'cursor',
  'interruptConversation path id': 'conversation',
  'searchApprovals query page_id': 'cursor',
  'getApprovals path id': 'conversation',
  'getLive path id': 'conversation',
  'getTimeline path id': 'conversation',
  'getResources path id': 'conversation',
  'listShares path id': 'conversation',
  'createShare path id': 'conversation',
  'revokeShare path id': 'conversation',
  'revokeShare path share_id': 'own',
  'searchSharedEvents query page_id': 'own',
  'openPullRequest path id': 'conversation',
  'offerHandover path id': 'conversation',
  'acceptHandover path id': 'handover',
  'refuseHandover path id': 'handover',
  'withdrawHandover path id': 'handover',
  'getApproval path id': 'conversation',
  'getApproval path approval_id': 'own',
  'answerApproval path id': 'conversation',
  'answerApproval path approval_id': 'own',
  'answerApproval body option_id': 'shared',
  'searchSandboxes query page_id': 'cursor',
  'getSandboxes query id': 'sandbox',
  'startSandbox query sandbox_spec_id': 'shared',
  'pauseSandbox path id': 'sandbox',
  'resumeSandbox path id': 'sandbox',
  'rotateSandboxKey path id': 'sandbox',
  'deleteSandbox path id': 'sandbox',
  'deleteSandbox query sandbox_id': 'unused',
  'listSandboxSecrets path id': 'sandbox',
  'getSandboxSecret path id': 'sandbox',
  'searchSecrets query page_id': 'cursor',
  'searchSandboxSpecs query page_id': 'shared',
  'getSandboxSpecs query id': 'shared',
  'listKeys query page_id': 'own',
  'revokeKey path id': 'key',
  'conversationPage path id': 'conversation',
  'conversationAppPage path id': 'conversation',
  'searchLegacyConversations query page_id': 'cursor',
  'getLegacyConversation path id': 'conversation',
  'searchModels query page_id': 'unused',
  'searchModelProviders query page_id': 'unused',
  'searchGitInstallations query page_id': 'unused',
  'searchRepositories query page_id': 'unused',
  'searchRepositories query installation_id': 'unused',
  'searchBranches query page_id': 'unused',
  'searchSkills query page_id': 'unused',
};

const message = { content: [{ type: 'text', text: 'Hello' }] };
/** The rest of the request beside the id. */
const bodies: Readonly<Record<string, object>> = {
  startConversation: { initial_message: message },
  streamStartConversation: { initial_message: message },
  updateConversation: { title: 'Mine now', public: true },
  sendMessage: message,
  resumeSandbox: { run: true },
  answerApproval: { decision: 'reject' },
  openPullRequest: { title: 'Fix' },
  offerHandover: { to: 'carol' },
  createKey: { name: 'Another' },
  createShare: { subject: { kind: 'link' } },
  startLegacyConversation: { initial_user_msg: 'Hello' },
  passToAgent: {
    host: `https://agents.example/sandboxes/sbx-${uuidOf('bob/running')}/AGENT_SERVER`,
    method: 'GET',
    path: '/api/conversations/1',
    headers: {},
  },
  dropAnalyticsEvents: {},
  createSecret: { name: 'TOKEN', value: 'of alice' },
  updateSecret: { name: 'TOKEN', description: 'Mine now' },
  saveSettings: { git_user_name: 'Alice', git_user_email: 'alice@example.com' },
  updateSettings: { llm_model: 'model-of-alice' },
};
/** Parameters that are needed, and are no ids. */
const parameters: Readonly<Record<string, string>> = {
  name: 'TOKEN',
  repository: 'acme/shop',
  approval_id: openApproval.id,
  path: '/workspace/project',
  q: 'hello',
  token: 'none',
  share_id: 'share-0123456789abcdef0123456789abcdef01234567',
  file_path: '/workspace/project/README.md',
};

/** The SHA-256 whose share `parameters` name. */
const shareDigest = '0123456789abcdef'.repeat(4);

const orders: Readonly<Record<string, string>> = {
  searchConversations: 'conversations/CREATED_AT_DESC',
  searchStartTasks: 'start-tasks/CREATED_AT_DESC',
  searchApprovals: 'approvals',
  searchSandboxes: 'sandboxes',
  searchLegacyConversations: 'conversations/CREATED_AT_DESC',
  searchSecrets: 'secrets',
  searchText: 'text/hello',
};

const broken = [
  {
    type: 'Failed',
    status: 'True' as const,
    reason: 'CrashLoop',
    message: 'It crashed.',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  },
];
const states = ['running', 'paused', 'starting', 'failed', 'missing', 'refused'] as const;
const idIn = (state: string) => uuidOf(`bob/${state}`);
const unknownId = uuidOf('unknown');
const handoverOfBob = 'handover-of-bob';

const world = await TwoOwners.start();
const document = JSON.parse(
  (await world.send({ method: 'GET', target: '/openapi.json' }))?.body.toString() ?? '',
) as OpenApi;
const operations = operationsOf(document);
const places = operations.flatMap((operation) => idPlacesOf(document, operation));
const keyOfBob = await world.addKey('bob', 'Spare of bob');
const operator = new Population(world);
world.agent.answer = answerAsAgent;

async function offered(
  name: string,
  { name: of, from, to }: Readonly<Record<'name' | 'from' | 'to', string>>,
): Promise<string> {
  const { uid } = (await world.client.get(conversations, namespace, of)).metadata;
  const stored = await world.client.create(handovers, {
    apiVersion,
    kind: handovers.kind,
    metadata: { namespace, name },
    spec: { conversation: { name: of, uid }, from, to, expirationTime: '2100-01-01T00:00:00Z' },
  });
  await world.seen(world.caches.handovers, stored);
  return name;
}

beforeAll(async () => {
  await world.addPair('bob', idIn('running'));
  await world.addPair('bob', idIn('paused'), world.running, 0);
  await world.addPair('bob', idIn('starting'), { conditions: [] });
  await world.addPair('bob', idIn('failed'), { conditions: broken });
  await world.addConversation('bob', idIn('missing'), {
    ...ready,
    sandboxName: `sbx-${idIn('missing')}`,
    sandboxStatus: 'MISSING',
  });
  await world.addConversation('bob', idIn('refused'), failed);
  await world.addSecret('bob', 'TOKEN');
  await offered(handoverOfBob, { name: idIn('running'), from: 'bob', to: 'carol' });
  await world.addPair('alice', uuidOf('alice/running'));
});
afterAll(async () => {
  await operator.close();
  await world.stop();
});

const valueOf = (place: IdPlace, id: string): string => {
  switch (kinds[labelOf(place)]) {
    case 'startTask':
      return startTaskIdOf(id);
    case 'sandbox':
      return `sbx-${id}`;
    case 'key':
      return id === unknownId ? 'key-none' : keyOfBob.name;
    case 'handover':
      return id === unknownId ? 'handover-none' : handoverOfBob;
    case 'cursor':
      return (
        encodeCursor(orders[place.operation.operationId] ?? '', {
          key: '2030-01-01T00:00:00Z',
          id,
        }) ?? ''
      );
    default:
      return id;
  }
};

/** A request of an owner that is right but for the id. */
function requestOf(
  operation: Operation,
  key: string | undefined,
  place?: IdPlace,
  value = '',
): Sent {
  const own = (name: string) =>
    parameters[name] ??
    (operation.path.includes('sandbox')
      ? `sbx-${uuidOf('alice/running')}`
      : uuidOf('alice/running'));
  const at = (where: string, name: string) =>
    place?.in === where && place.name === name ? value : undefined;
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_match, name: string) =>
    encodeURIComponent(at('path', name) ?? own(name)),
  );
  const query = operation.parameters
    .filter(
      (parameter) =>
        parameter.in === 'query' &&
        (parameter.required || at('query', parameter.name) !== undefined),
    )
    .map(({ name }) => `${name}=${encodeURIComponent(at('query', name) ?? own(name))}`);
  const json = bodies[operation.operationId];
  const body =
    json === undefined
      ? undefined
      : Buffer.from(
          JSON.stringify({ ...json, ...(place?.in === 'body' ? { [place.name]: value } : {}) }),
        );
  return {
    method: operation.method,
    target: query.length === 0 ? path : `${path}?${query.join('&')}`,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': String(body.length) }),
      ...(place?.in === 'header' ? { [place.name]: value } : {}),
    },
    body,
  };
}

async function sent(request: Sent): Promise<Got> {
  const got = await world.send(request);
  if (got === undefined) throw new Error(`no answer to ${request.method} ${request.target}`);
  return got;
}

const differing = new Set(['date', 'x-request-id', 'ratelimit', 'content-length']);
/** An answer without what differs between any two, and without the id that was asked for. */
const comparable = ({ status, headers, body }: Got, ...ids: readonly string[]) => ({
  status,
  headers: Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => !differing.has(name))
      .map(([name, value]) => [
        name,
        ids.reduce((text, id) => text.replaceAll(id, 'ID'), String(value)),
      ]),
  ),
  body: ids
    .reduce((text, id) => text.replaceAll(id, 'ID'), body.toString())
    .replaceAll(/"request_id":"[^"]+"/g, '')
    .replaceAll(/"uptime":[\d.]+/g, ''),
});

const bobsThings = async () =>
  (await world.cluster()).filter((object) => ownerOf(object) === 'bob');
const ownerOf = (object: KubeObject & { readonly spec?: { readonly owner?: string } }) =>
  object.spec?.owner;

/** Texts that only bob's things have. */
async function bobs(): Promise<readonly string[]> {
  const mine = await bobsThings();
  const uids = mine.map(({ metadata }) => metadata.uid);
  return [
    "bob's",
    ...Object.values(world.secretValues).map(String),
    '"bob"',
    ...mine.map(({ metadata }) => metadata.name),
    ...uids,
    ...mine.map((object) => world.sessionKeyOf(object, 'bob')),
  ];
}
const foreignIn = (got: Got, needles: readonly string[], ...asked: readonly string[]) =>
  needles.filter(
    (needle) =>
      !asked.includes(needle) &&
      (got.body.includes(needle) || JSON.stringify(got.headers).includes(needle)),
  );

describe('the matrix', () => {
  it('covers everything in the document that takes an id, and nothing else', () => {
    expect(places.map(labelOf).sort()).toEqual(Object.keys(kinds).sort());
    const needsBody = operations
      .filter(({ requestBody }) => requestBody !== undefined)
      .map(({ operationId }) => operationId);
    expect(needsBody.filter((operationId) => !(operationId in bodies))).toEqual([]);
  });
});

async function addWithoutSandbox(owner: string, id: string): Promise<void> {
  const status = { ...ready, sandboxName: `sbx-${id}`, sandboxStatus: 'MISSING' as const };
  await world.addConversation('bob', id, status, { owner, title: `Work of ${owner}` });
}

/** The id of an object that bob can use. */
async function ownValueOf(place: IdPlace, id: string): Promise<string> {
  const label = labelOf(place);
  if (kinds[label] === 'key') return (await world.addKey('bob', 'To revoke')).name;
  if (kinds[label] !== 'handover') return valueOf(place, id);
  const [from, to] = label.startsWith('withdraw')
    ? (['bob', 'carol'] as const)
    : (['carol', 'bob'] as const);
  const name = uuidOf(`${from}/offered/${label}`);
  await addWithoutSandbox(from, name);
  return offered(`handover-${name}`, { name, from, to });
}

describe("another owner's ids show nothing and change nothing", () => {
  const foreign = places.filter((place) =>
    ['conversation', 'startTask', 'sandbox', 'key', 'handover', 'cursor'].includes(
      kinds[labelOf(place)] ?? '',
    ),
  );

  it.each(foreign.map((place) => [labelOf(place), place] as const))('%s', async (_label, place) => {
    const { operation } = place;
    const unknown = valueOf(place, unknownId);
    const needles = await bobs();
    for (const state of states) {
      const value = valueOf(place, idIn(state));
      // A start that is accepted would be a change of its own.
      const before = await world.cluster();
      const got = await sent(requestOf(operation, world.keys.alice, place, value));
      const ofUnknown = await sent(requestOf(operation, world.keys.alice, place, unknown));
      expect(comparable(got, value, idIn(state))).toEqual(
        comparable(ofUnknown, unknown, unknownId),
      );
      expect(foreignIn(got, needles, value, idIn(state), `sbx-${idIn(state)}`)).toEqual([]);
      expect(await world.cluster()).toEqual(before);
    }
  });

  it.each(
    foreign
      .filter(
        (place) => place.operation.security?.length !== 0 && kinds[labelOf(place)] !== 'cursor',
      )
      .map((place) => [labelOf(place), place] as const),
  )('while they are of use to bob himself: %s', async (label, place) => {
    const id = uuidOf(`bob/own/${label}`);
    // A sandbox that no conversation was made for does not move.
    if (label.startsWith('offerHandover')) await addWithoutSandbox('bob', id);
    else await world.addPair('bob', id, world.running, label.startsWith('sendMessage') ? 0 : 1);
    if (label.startsWith('revokeShare')) await world.addShare('bob', id, shareDigest);
    const value = await ownValueOf(place, id);
    const got = await sent(requestOf(place.operation, world.keys.bob, place, value));
    const unknown = valueOf(place, unknownId);
    const ofUnknown = await sent(requestOf(place.operation, world.keys.bob, place, unknown));
    expect(got.status).toBeLessThan(300);
    expect(comparable(got, value, id)).not.toEqual(comparable(ofUnknown, unknown, unknownId));
  });
});

describe('what another owner has made of the same words', () => {
  it.each(
    places
      .filter((place) => labelOf(place).match(/^s(tart|treamStart)Conversation header/))
      .map((place) => [labelOf(place), place] as const),
  )('is no business of this one: %s', async (label, { operation }) => {
    const place: IdPlace = { operation, in: 'header', name: 'idempotency-key' };
    await sent(requestOf(operation, world.keys.bob, place, label));
    const needles = await bobs();
    const before = await bobsThings();
    // With another body: bob's key would be refused for it.
    const request = requestOf(operation, world.keys.alice, place, label);
    const body = Buffer.from(
      JSON.stringify({ ...bodies[operation.operationId], title: 'Of alice' }),
    );
    const got = await sent({
      ...request,
      body,
      headers: { ...request.headers, 'content-length': String(body.length) },
    });
    expect([got.status, foreignIn(got, needles)]).toEqual([200, []]);
    expect(got.body.toString()).toContain('"created_by_user_id":"alice"');
    expect(await bobsThings()).toEqual(before);
  });

  it.each(['startConversation', 'streamStartConversation'])(
    'an id that one chooses can only be in use, whichever owner uses it: %s',
    async (operationId) => {
      const operation = operations.find((candidate) => candidate.operationId === operationId);
      if (operation === undefined) throw new Error(`there is no ${operationId}`);
      const place: IdPlace = { operation, in: 'body', name: 'conversation_id' };
      const before = await world.cluster();
      const own = uuidOf('alice/running');
      const ofBob = await sent(requestOf(operation, world.keys.alice, place, idIn('running')));
      const ofAlice = await sent(requestOf(operation, world.keys.alice, place, own));
      expect(ofBob.status).toBe(409);
      expect(comparable(ofBob)).toEqual(comparable(ofAlice));
      expect(foreignIn(ofBob, await bobs())).toEqual([]);
      expect(await world.cluster()).toEqual(before);
    },
  );
});

describe('operations without an id', () => {
  const others = operations.filter(
    (operation) =>
      !places.some((place) => place.operation === operation && kinds[labelOf(place)] !== 'shared'),
  );

  it.each(others.map((operation) => [operation.operationId, operation] as const))(
    "show and change nothing of bob's: %s",
    async (_id, operation) => {
      const needles = await bobs();
      const before = await bobsThings();
      const got = await sent(requestOf(operation, world.keys.alice));
      expect(got.status).not.toBe(422);
      expect(foreignIn(got, needles)).toEqual([]);
      expect(await bobsThings()).toEqual(before);
    },
  );

  it.each([
    'searchConversations',
    'searchStartTasks',
    'searchSandboxes',
    'searchLegacyConversations',
    'listKeys',
  ])('%s lists them to bob', async (operationId) => {
    const operation = operations.find((candidate) => candidate.operationId === operationId);
    if (operation === undefined) throw new Error(`there is no ${operationId}`);
    const needles = await bobs();
    expect(foreignIn(await sent(requestOf(operation, world.keys.bob)), needles)).not.toEqual([]);
    expect(foreignIn(await sent(requestOf(operation, world.keys.alice)), needles)).toEqual([]);
  });
});

describe("another owner's sandbox behind the proxy", () => {
  const alices = `sbx-${uuidOf('alice/running')}`;
  const shown: Readonly<Record<string, () => Promise<Record<string, string>>>> = {
    'no key': () => Promise.resolve({}),
    'an API key': () => Promise.resolve({ authorization: `Bearer ${world.keys.alice}` }),
    'an API key as session key': () => Promise.resolve({ 'x-session-api-key': world.keys.alice }),
    'the key of an own sandbox': async () => ({ 'x-session-api-key': await sessionKeyOf(alices) }),
  };
  const sessionKeyOf = async (name: string) => {
    const found = (await world.cluster()).find(({ metadata }) => metadata.name === name);
    if (found === undefined) throw new Error(`${name} does not exist`);
    return world.sessionKeyOf(found, 'alice');
  };
  const proxied = (id: string, path: string) => `/sandboxes/sbx-${id}/AGENT_SERVER${path}`;

  it.each(
    Object.keys(shown).flatMap((what) =>
      ['GET', 'POST', 'DELETE'].map((method) => [what, method] as const),
    ),
  )('with %s: %s', async (what, method) => {
    const headers = await shown[what]?.();
    world.agent.seen.length = 0;
    const timed = async (id: string) => {
      const began = performance.now();
      const got = await sent({
        method,
        target: proxied(id, '/api/conversations/1'),
        headers: headers ?? {},
      });
      return { ...comparable(got), isSlow: performance.now() - began > 30_000 };
    };
    const [ofUnknown, ...ofBob] = await Promise.all([unknownId, ...states.map(idIn)].map(timed));
    for (const got of ofBob) expect(got).toEqual(ofUnknown);
    expect(world.agent.seen).toEqual([]);
  });

  it('over WebSocket', async () => {
    const headers = await shown['the key of an own sandbox']?.();
    const refusal = (target: string) =>
      new Promise((resolve) => {
        const socket = new WebSocket(`ws://127.0.0.1:${world.port}${target}`, {
          headers: headers ?? {},
        });
        socket.on('unexpected-response', (_request, response) =>
          resolve([response.statusCode, Object.keys(response.headers).sort()]),
        );
        socket.on('open', () => resolve('open'));
        socket.on('error', () => undefined);
      });
    world.agent.seen.length = 0;
    const ofUnknown = await refusal(proxied(unknownId, '/sockets/events/1'));
    const ofBob = await Promise.all(
      states.map((state) => refusal(proxied(idIn(state), '/sockets/events/1'))),
    );
    for (const got of ofBob) expect(got).toEqual(ofUnknown);
    expect(world.agent.seen).toEqual([]);
  });
});
