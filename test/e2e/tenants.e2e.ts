import type { Conversation } from '../../src/resources/conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../src/resources/ids.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { eventually } from '../support/eventually.ts';
import { kubectlRefused } from './support/cluster.ts';
import { TestedInstallation, readFacts } from './support/installation.ts';

const up = new TestedInstallation('story');
const { sandboxes: namespace } = readFacts();
const apiVersion = 'conversation-operator.dev/v1alpha1';
const [bob, mallory] = ['bob-with-kubectl', 'mallory-with-kubectl'];
const withinMs = 90_000;

/** The Role of docs/security.md for owners who use kubectl, without any `use`. */
const role = [
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name: 'e2e-tenant', namespace },
    rules: [
      {
        apiGroups: ['conversation-operator.dev'],
        resources: ['conversations', 'sandboxes'],
        verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      },
    ],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'e2e-tenant', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'e2e-tenant' },
    subjects: [bob, mallory].map((name) => ({
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'User',
      name,
    })),
  },
];
const list = (items: readonly object[]) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'List', items });

const conversationOfBob = (name: string) => ({
  apiVersion,
  kind: 'Conversation',
  metadata: { name, namespace },
  spec: {
    owner: bob,
    initialMessage: { content: [{ type: 'text', text: '```sh\necho secret >of-bob.txt\n```' }] },
  },
});
const referenceTo = ({ metadata: { name, uid } }: Conversation) => ({
  apiVersion,
  kind: 'Conversation',
  name,
  uid,
  controller: true,
  blockOwnerDeletion: true,
});
const sandboxOfMallory = (name: string, of?: Conversation) => ({
  apiVersion,
  kind: 'Sandbox',
  metadata: {
    name,
    namespace,
    ...(of === undefined ? {} : { ownerReferences: [referenceTo(of)] }),
  },
  spec: { owner: mallory, replicas: 1 },
});
const nameFor = (conversation: string) =>
  ownSandboxName(conversationIdOf({ metadata: { name: conversation, namespace } as never }));

describe('an owner with kubectl who wants the start of another one', () => {
  const read = async <T>(what: string): Promise<T> =>
    JSON.parse(await up.k(`get ${what} -o json`)) as T;
  const create = (object: object, as: readonly string[] = []) =>
    up.k(['create', '-f', '-', ...as], JSON.stringify(object));
  const start = async (name: string): Promise<Conversation> => {
    await create(conversationOfBob(name), ['--as', bob]);
    return read<Conversation>(`conversation ${name}`);
  };
  /** The sandbox in which the conversation has run the command of its first message. */
  const sandboxOf = async (name: string): Promise<Sandbox> => {
    await up.k(`wait --for=condition=Finished conversation/${name} --timeout=90s`);
    const { status } = await read<Conversation>(`conversation ${name}`);
    return read<Sandbox>(`sandbox ${status?.sandboxName ?? ''}`);
  };
  const hasFile = async (sandbox: string) =>
    (await up.inSandbox(sandbox, 'ls -R /workspace')).includes('of-bob.txt');

  beforeAll(() => up.k(['apply', '-f', '-'], list(role)));
  afterAll(async () => {
    await up.k(['delete', '-f', '-', '--ignore-not-found'], list(role));
    const all = await read<{ items: Sandbox[] }>('sandboxes');
    for (const { metadata, spec } of all.items)
      if (spec.owner === mallory) await up.k(['delete', 'sandbox', metadata.name]);
    await up.k(['delete', 'conversations', '--field-selector', `spec.owner=${bob}`]);
  });

  it('may neither name the conversation, nor take the name of its sandbox', async () => {
    const conversation = await start('e2e-refused');
    const attempt = (object: object) =>
      kubectlRefused(
        ['--namespace', namespace, 'create', '-f', '-', '--as', mallory],
        JSON.stringify(object),
      );
    expect(await attempt(sandboxOfMallory('e2e-any', conversation))).toMatch(/owner references/);
    expect(await attempt(sandboxOfMallory(nameFor('e2e-squatted')))).toMatch(/names like sbx-/);
    expect((await sandboxOf('e2e-refused')).spec.owner).toBe(bob);
  });

  // An administrator passes the policies, as mallory does on a cluster without them.
  it('gets nothing by the name of its sandbox, nor by a later reference', async () => {
    const squatted = nameFor('e2e-squatted');
    await create(sandboxOfMallory(squatted));
    await up.k(`wait --for=condition=Ready sandbox/${squatted} --timeout=90s`);
    const conversation = await start('e2e-squatted');
    await up.k([
      ...['patch', 'sandbox', squatted, '--type', 'merge', '-p'],
      JSON.stringify({ metadata: { ownerReferences: [referenceTo(conversation)] } }),
    ]);
    const { metadata, spec } = await sandboxOf('e2e-squatted');
    expect([spec.owner, metadata.name === squatted]).toEqual([bob, false]);
    expect(await hasFile(metadata.name)).toBe(true);
    expect(await hasFile(squatted)).toBe(false);
  }, 240_000);

  it('gets nothing by a reference in a sandbox of any name, however early it is there', async () => {
    const names = ['e2e-race-1', 'e2e-race-2', 'e2e-race-3'];
    for (const name of names) await create(sandboxOfMallory(name, await start(name)));
    for (const name of names) {
      const { metadata, spec } = await sandboxOf(name);
      expect([spec.owner, metadata.name]).toEqual([bob, nameFor(name)]);
      expect(await hasFile(metadata.name)).toBe(true);
    }
    await eventually(
      'each conversation to have one sandbox alone',
      async () =>
        (await read<{ items: Sandbox[] }>('sandboxes')).items.filter(
          ({ metadata, spec }) =>
            spec.owner === bob &&
            metadata.ownerReferences?.some(({ name }) => names.includes(name)) === true,
        ).length === names.length,
      withinMs,
    );
  }, 240_000);
});
