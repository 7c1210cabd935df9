import { settingsNameOf } from '../../src/resources/owner-settings.ts';
import type { KubectlResult } from './kubectl.ts';

/** Users of kubectl on a cluster with the chart's admission policies, with `tenantRoles`. */
export const tenants = {
  /** Writes every kind of the product, and may `use` no owner. */
  alice: 'alice@example.com',
  /** The same, and may `use` the owner team-a. */
  lead: 'lead@example.com',
  /** Every verb of the product's group, as platform teams have it. */
  platform: 'platform@example.com',
} as const;
type Tenant = keyof typeof tenants;

const group = 'conversation-operator.dev';
const apiVersion = `${group}/v1alpha1`;

/** Roles and RoleBindings of the tenants, for the sandboxes' namespace. */
export const tenantRoles = (namespace: string): readonly object[] => {
  const kinds = [
    ...['conversations', 'sandboxes', 'sandboxes/scale', 'sandboxtemplates', 'apikeys'],
    ...['ownersettings', 'shares', 'handovers'],
    ...['conversations/status', 'usagerecords', 'usagerecords/status'],
  ];
  const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete'];
  const rules: Readonly<Record<Tenant, readonly object[]>> = {
    alice: [{ apiGroups: [group], resources: kinds, verbs }],
    lead: [
      { apiGroups: [group], resources: kinds, verbs },
      { apiGroups: [group], resources: ['owners'], resourceNames: ['team-a'], verbs: ['use'] },
    ],
    platform: [{ apiGroups: [group], resources: ['*'], verbs: ['*'] }],
  };
  return Object.entries(tenants).flatMap(([tenant, user]) => {
    const metadata = { name: `policy-test-${tenant}`, namespace };
    return [
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata,
        rules: rules[tenant as Tenant],
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata,
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
      },
    ];
  });
};

const aConversation = (owner: string, name = 'policy-test-trial') => ({
  apiVersion,
  kind: 'Conversation',
  metadata: { name },
  spec: { owner },
});
const aSandbox = (owner: string, name = 'policy-test-trial') => ({
  apiVersion,
  kind: 'Sandbox',
  metadata: { name },
  spec: { owner, replicas: 0 },
});
const settingsOf = (owner: string, name = settingsNameOf(owner)) => ({
  apiVersion,
  kind: 'OwnerSettings',
  metadata: { name },
  spec: { owner },
});
const shareOf = (owner: string) => ({
  apiVersion,
  kind: 'Share',
  metadata: { name: 'policy-test-trial' },
  spec: {
    owner,
    conversation: { name: 'policy-test-of-bob', uid: 'some-uid' },
    subject: { kind: 'Link' },
    sha256: '0'.repeat(64),
    createdBy: 'kubectl',
  },
});
const aHandover = (from: string, to: string, name = 'policy-test-trial') => ({
  apiVersion,
  kind: 'Handover',
  metadata: { name },
  spec: {
    conversation: { name: 'policy-test-of-alice', uid: 'some-uid' },
    from,
    to,
    expirationTime: '2100-01-01T00:00:00Z',
  },
});
const answering = (value: string) => ({
  spec: { answer: { value, by: 'someone', time: '2030-01-01T00:00:00Z' } },
});
/** A sandbox or a conversation with more metadata. */
const withMetadata = <T extends { readonly metadata: object }>(object: T, metadata: object): T => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
});
const referenceTo = (kind: string) => ({
  ownerReferences: [{ apiVersion, kind, name: 'of-bob', uid: 'some-uid', controller: true }],
});
const aKey = (owner: string) => ({
  apiVersion,
  kind: 'ApiKey',
  metadata: { name: 'policy-test-trial' },
  spec: { owner, sha256: 'a'.repeat(64) },
});
const aTemplate = (podTemplate: object) => ({
  apiVersion,
  kind: 'SandboxTemplate',
  metadata: { name: 'policy-test-trial' },
  spec: { podTemplate },
});
const aPodWith = (spec: object = {}, container: object = {}, metadata: object = {}) =>
  aTemplate({
    metadata,
    spec: { containers: [{ name: 'agent', image: 'agent:1', ...container }], ...spec },
  });

/** A record of a month in which nothing was spent. */
const aRecord = (month: string) => ({
  apiVersion,
  kind: 'UsageRecord',
  metadata: { name: `usage-${month}` },
  spec: { scope: 'Namespace', month },
});

/** Objects that have to exist before the cases are tried. */
export const policyFixtures: readonly object[] = [
  aConversation('bob', 'policy-test-of-bob'),
  aConversation(tenants.alice, 'policy-test-of-alice'),
  aSandbox('bob', 'policy-test-of-bob'),
  aSandbox(tenants.alice, 'policy-test-of-alice'),
  settingsOf(tenants.alice),
  aHandover('bob', tenants.alice, 'policy-test-to-alice'),
  aHandover(tenants.alice, 'bob', 'policy-test-to-bob'),
  aRecord('2000-01'),
];

const referredConversation = 'policy-test-of-alice';

/**
 * Arguments of kubectl that print the uid for `referringFixtures`: garbage collection deletes an
 * object that names one which does not exist.
 */
export const uidOfReferred = [
  'get',
  'conversation',
  referredConversation,
  '-o',
  'jsonpath={.metadata.uid}',
];

/** A sandbox that a conversation has joined; an operator deletes a second one made for it. */
export const referringFixtures = (uid: string): readonly object[] => [
  withMetadata(aSandbox(tenants.alice, 'policy-test-joined-by-alice'), {
    ownerReferences: [{ apiVersion, kind: 'Conversation', name: referredConversation, uid }],
  }),
];

export interface PolicyCase {
  readonly does: string;
  readonly as: string;
  readonly args: readonly string[];
  readonly input?: object;
  /** The pattern of the refusal; absent: the request is allowed. */
  readonly refused?: RegExp;
}

const dryRun = '--dry-run=server';
const creates = (object: object) => ({ args: ['create', dryRun, '-f', '-'], input: object });
const changes = (what: string, patch: object) => ({
  args: ['patch', what, dryRun, '--type', 'merge', '-p', JSON.stringify(patch)],
});
const changesStatus = (what: string, status: object) => ({
  args: [...changes(what, { status }).args, '--subresource=status'],
});
const notTheirs = /may not act for the owner/;
const noScale = /scaling needs the verb "use"/;
const noReference = /owner references to objects of .* are the operator's/;
const noLabel = /labels .* are the operator's/;
const noAnnotation = /annotations .* are the operator's/;
const noName = /are for sandboxes of the operator/;
const noSettings = /OwnerSettings have the name that follows from their owner/;
const noMove = /owner and handover are the operator's/;
const noKeys = /needs the verb "issue"/;
const noCharge = /UsageRecord needs the verb "charge"/;
const spent = { accounts: [{ key: 'default/Month/2000-01-01', unit: 'USD', spent: '1' }] };

/** The chart's service accounts, for the cases that ask for them. */
export interface Accounts {
  readonly gateway: string;
  readonly operator: string;
}

export const policyCases = ({ gateway, operator }: Accounts): readonly PolicyCase[] => {
  const { alice, lead, platform } = tenants;
  const ofAlice = (does: string, object: object, refused?: RegExp): PolicyCase => ({
    does,
    as: alice,
    ...creates(object),
    ...(refused === undefined ? {} : { refused }),
  });
  return [
    // Owners.
    { does: 'starts a conversation of her own', as: alice, ...creates(aConversation(alice)) },
    {
      does: 'starts a conversation of another owner',
      as: alice,
      ...creates(aConversation('bob')),
      refused: notTheirs,
    },
    {
      does: 'makes a sandbox of another owner',
      as: alice,
      ...creates(aSandbox('bob')),
      refused: notTheirs,
    },
    ofAlice(
      'makes settings of her own under the name of those of another owner',
      settingsOf(alice, settingsNameOf('bob')),
      noSettings,
    ),
    ofAlice('makes settings of her own under any name', settingsOf(alice, 'mine'), noSettings),
    {
      does: 'makes settings under a name that no owner has',
      as: platform,
      ...creates(settingsOf('bob', 'policy-test-trial')),
      refused: noSettings,
    },
    { does: 'makes settings of every owner', as: gateway, ...creates(settingsOf('bob')) },
    {
      does: 'changes settings of her own',
      as: alice,
      ...changes(`ownersettings/${settingsNameOf(alice)}`, { spec: { model: 'openai/m' } }),
    },
    ofAlice('makes settings of another owner', settingsOf('bob'), notTheirs),
    ofAlice('shares a conversation as another owner', shareOf('bob'), notTheirs),
    { does: 'shares conversations of every owner', as: gateway, ...creates(shareOf('bob')) },
    {
      does: 'changes a conversation of her own',
      as: alice,
      ...changes('conversation/policy-test-of-alice', { spec: { title: 'x' } }),
    },
    { does: 'offers a conversation of her own', as: alice, ...creates(aHandover(alice, 'bob')) },
    ofAlice('offers a conversation of another owner', aHandover('bob', alice), notTheirs),
    {
      does: 'accepts what is offered to her',
      as: alice,
      ...changes('handover/policy-test-to-alice', answering('Accepted')),
    },
    {
      does: 'accepts for another owner',
      as: alice,
      ...changes('handover/policy-test-to-bob', answering('Accepted')),
      refused: notTheirs,
    },
    {
      does: 'withdraws an offer of her own',
      as: alice,
      ...changes('handover/policy-test-to-bob', answering('Withdrawn')),
    },
    {
      does: 'withdraws the offer of another owner',
      as: alice,
      ...changes('handover/policy-test-to-alice', answering('Withdrawn')),
      refused: notTheirs,
    },
    {
      does: 'gives a sandbox of her own away',
      as: alice,
      ...changes('sandbox/policy-test-of-alice', { spec: { handover: { name: 'h', to: 'bob' } } }),
      refused: noMove,
    },
    {
      does: 'moves a conversation of its owner',
      as: operator,
      ...changes('conversation/policy-test-of-alice', {
        spec: { handover: { name: 'h', to: 'bob' } },
      }),
    },
    {
      does: 'sends a message to the conversation of another owner',
      as: alice,
      ...changes('conversation/policy-test-of-bob', {
        spec: { messages: [{ number: 1, id: 'm', content: [{ type: 'text', text: 'x' }] }] },
      }),
      refused: notTheirs,
    },
    {
      does: 'resumes the sandbox of another owner',
      as: alice,
      ...changes('sandbox/policy-test-of-bob', { spec: { replicas: 1 } }),
      refused: notTheirs,
    },
    {
      does: 'resumes a sandbox of her own',
      as: alice,
      ...changes('sandbox/policy-test-of-alice', { spec: { replicas: 1 } }),
    },
    {
      does: 'deletes the conversation of another owner',
      as: alice,
      args: ['delete', dryRun, 'conversation/policy-test-of-bob'],
      refused: notTheirs,
    },
    {
      does: 'deletes a conversation of her own',
      as: alice,
      args: ['delete', dryRun, 'conversation/policy-test-of-alice'],
    },
    {
      does: 'scales a sandbox, whose owner no policy can know',
      as: alice,
      args: ['scale', dryRun, 'sandbox/policy-test-of-bob', '--replicas=1'],
      refused: noScale,
    },
    {
      does: 'starts a conversation of an owner that a Role names',
      as: lead,
      ...creates(aConversation('team-a')),
    },
    {
      does: 'starts a conversation of an owner that no Role names',
      as: lead,
      ...creates(aConversation('team-b')),
      refused: notTheirs,
    },
    {
      does: 'scales a sandbox',
      as: lead,
      args: ['scale', dryRun, 'sandbox/policy-test-of-bob', '--replicas=1'],
      refused: noScale,
    },
    { does: 'starts a conversation of any owner', as: platform, ...creates(aConversation('bob')) },
    {
      does: 'scales any sandbox',
      as: platform,
      args: ['scale', dryRun, 'sandbox/policy-test-of-bob', '--replicas=1'],
    },
    { does: 'starts conversations of every owner', as: gateway, ...creates(aConversation('bob')) },
    { does: 'makes sandboxes of every owner', as: operator, ...creates(aSandbox('bob')) },
    // References, labels, annotations and names that the operator reads.
    ofAlice(
      'makes a sandbox for the conversation of another owner',
      withMetadata(aSandbox(alice), referenceTo('Conversation')),
      noReference,
    ),
    ofAlice(
      'makes a conversation that goes with the key of another owner',
      withMetadata(aConversation(alice), referenceTo('ApiKey')),
      noReference,
    ),
    ofAlice(
      'makes a sandbox that goes with an object of another group',
      withMetadata(aSandbox(alice), {
        ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'some-uid' }],
      }),
    ),
    {
      does: 'gives a sandbox of her own to the conversation of another owner',
      as: alice,
      ...changes('sandbox/policy-test-of-alice', { metadata: referenceTo('Conversation') }),
      refused: noReference,
    },
    {
      does: 'keeps a reference that the operator wrote',
      as: alice,
      ...changes('sandbox/policy-test-joined-by-alice', { spec: { replicas: 1 } }),
    },
    {
      does: 'makes the conversation of a joined sandbox its controller',
      as: alice,
      ...changes('sandbox/policy-test-joined-by-alice', { metadata: referenceTo('Conversation') }),
      refused: noReference,
    },
    ofAlice(
      'makes a sandbox with the label of a pool',
      withMetadata(aSandbox(alice), { labels: { [`${group}/pool`]: 'default' } }),
      noLabel,
    ),
    ofAlice(
      'makes a sandbox with a label of her own',
      withMetadata(aSandbox(alice), { labels: { 'app.kubernetes.io/managed-by': 'Helm' } }),
    ),
    ofAlice(
      'makes a sandbox with the template version of a warm sandbox',
      withMetadata(aSandbox(alice), { annotations: { [`${group}/template-version`]: 'x/1' } }),
      noAnnotation,
    ),
    ofAlice(
      'makes a conversation that a start of the gateway would take for its own',
      withMetadata(aConversation(alice), { annotations: { [`${group}/request-sha256`]: 'x' } }),
      noAnnotation,
    ),
    {
      does: 'resumes a sandbox of her own by its annotation',
      as: alice,
      args: [
        ...['annotate', dryRun, 'sandbox/policy-test-of-alice'],
        `${group}/resume-requested-at=2026-03-01T12:00:00Z`,
      ],
    },
    ofAlice(
      'takes the name of the sandbox of a start',
      aSandbox(alice, `sbx-${'a'.repeat(32)}`),
      noName,
    ),
    ofAlice('gives a sandbox a name with the same beginning', aSandbox(alice, 'sbx-mine')),
    {
      does: 'makes sandboxes for conversations',
      as: operator,
      ...creates(
        withMetadata(aSandbox('bob', `sbx-${'b'.repeat(32)}`), referenceTo('Conversation')),
      ),
    },
    {
      does: 'repairs the reference of any sandbox',
      as: platform,
      ...changes('sandbox/policy-test-of-bob', { metadata: referenceTo('Conversation') }),
    },
    // ApiKeys.
    {
      does: 'makes a key, even one of her own',
      as: alice,
      ...creates(aKey(alice)),
      refused: noKeys,
    },
    { does: 'makes a key', as: platform, ...creates(aKey('bob')) },
    { does: 'makes keys', as: gateway, ...creates(aKey('bob')) },
    // UsageRecords.
    ofAlice('makes a UsageRecord', aRecord('2000-02'), noCharge),
    {
      does: 'adds to what is spent',
      as: alice,
      ...changesStatus('usagerecord/usage-2000-01', spent),
      refused: noCharge,
    },
    {
      does: 'labels a UsageRecord',
      as: alice,
      args: ['label', dryRun, 'usagerecord/usage-2000-01', 'mine=yes'],
      refused: noCharge,
    },
    {
      does: 'deletes a UsageRecord',
      as: lead,
      args: ['delete', dryRun, 'usagerecord/usage-2000-01'],
      refused: noCharge,
    },
    {
      does: 'deletes a UsageRecord',
      as: platform,
      args: ['delete', dryRun, 'usagerecord/usage-2000-01'],
    },
    { does: 'makes a UsageRecord', as: gateway, ...creates(aRecord('2000-02')) },
    {
      does: 'corrects what is spent',
      as: platform,
      ...changesStatus('usagerecord/usage-2000-01', spent),
    },
    {
      does: 'raises budgets',
      as: operator,
      args: ['auth', 'can-i', 'charge', `usagerecords.${group}`],
    },
    // Templates.
    ofAlice('makes an ordinary template', aPodWith()),
    ofAlice(
      'makes a template with labels, volumes and ports of its own',
      aPodWith(
        {
          volumes: [
            { name: 'tmp', emptyDir: {} },
            { name: 'files', projected: { sources: [{ configMap: { name: 'a' } }] } },
          ],
          initContainers: [{ name: 'i', image: 'i:1' }],
        },
        { ports: [{ containerPort: 80 }], securityContext: { runAsUser: 1000 } },
        { labels: { 'app.kubernetes.io/name': 'mine' }, annotations: { note: 'x' } },
      ),
    ),
    ofAlice('makes a template without a pod', aTemplate({}), undefined),
    ofAlice(
      'makes pods that count as another sandbox',
      aPodWith({}, {}, { labels: { [`${group}/sandbox`]: 'x' } }),
      /reserved/,
    ),
    ofAlice(
      'makes pods that count as managed',
      aPodWith({}, {}, { labels: { 'app.kubernetes.io/managed-by': 'x' } }),
      /reserved/,
    ),
    ofAlice(
      'makes pods that count as another owner',
      aPodWith({}, {}, { annotations: { [`${group}/owner`]: 'bob' } }),
      /reserved/,
    ),
    ofAlice(
      "makes pods that the gateway's Service selects",
      aPodWith(
        {},
        {},
        {
          labels: {
            'app.kubernetes.io/name': 'conversation-operator',
            'app.kubernetes.io/instance': 'conversation-operator',
          },
        },
      ),
      /release's own pods/,
    ),
    ...['hostNetwork', 'hostPID', 'hostIPC'].map((field) =>
      ofAlice(`makes pods with ${field}`, aPodWith({ [field]: true }), /the node's namespaces/),
    ),
    ofAlice(
      'mounts a folder of the node',
      aPodWith({ volumes: [{ name: 'x', hostPath: { path: '/' } }] }),
      /hostPath/,
    ),
    ofAlice(
      'takes a port of the node',
      aPodWith({}, { ports: [{ containerPort: 80, hostPort: 80 }] }),
      /hostPort/,
    ),
    ofAlice(
      'makes a privileged container',
      aPodWith({}, { securityContext: { privileged: true } }),
      /privileged/,
    ),
    ofAlice(
      'makes a privileged init container',
      aPodWith({
        initContainers: [{ name: 'i', image: 'i:1', securityContext: { privileged: true } }],
      }),
      /privileged/,
    ),
    ofAlice(
      'mounts the token of a service account',
      aPodWith({ automountServiceAccountToken: true }),
      /service account's token/,
    ),
    ofAlice(
      'projects the token of a service account',
      aPodWith({
        volumes: [
          { name: 'x', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } },
        ],
      }),
      /service account's token/,
    ),
    ofAlice(
      'makes a template that is no pod at all',
      aTemplate({ spec: { containers: 'x' } }),
      /denied request|expression/,
    ),
    {
      does: 'mounts a folder of the node',
      as: platform,
      ...creates(aPodWith({ volumes: [{ name: 'x', hostPath: { path: '/' } }] })),
      refused: /hostPath/,
    },
  ];
};

/** A sentence about the difference to the case; empty where there is none. */
export function judge({ refused }: PolicyCase, { code, stderr }: KubectlResult): string {
  if (refused === undefined) return code === 0 ? '' : `refused: ${stderr}`;
  if (code === 0) return 'allowed';
  return refused.test(stderr) ? '' : `refused for another reason: ${stderr}`;
}
