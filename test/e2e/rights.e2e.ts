import { eventually } from '../support/eventually.ts';
import { getJson, kubectl } from './support/cluster.ts';
import { readFacts, release } from './support/installation.ts';
import { committed, components, rightsOf, type Component } from './support/rights.ts';

const facts = readFacts();

/** Calls the API server from a pod with its mounted token; answers with each call's status. */
const caller = `
  const { readFileSync } = require('node:fs');
  const { request } = require('node:https');
  const folder = '/var/run/secrets/kubernetes.io/serviceaccount/';
  const options = { ca: readFileSync(folder + 'ca.crt'), headers: { authorization: 'Bearer ' + readFileSync(folder + 'token', 'utf8') } };
  const server = 'https://' + process.env.KUBERNETES_SERVICE_HOST + ':' + process.env.KUBERNETES_SERVICE_PORT;
  const call = ([method, path, body]) =>
    new Promise((resolve, reject) => {
      const headers = { ...options.headers, 'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' };
      request(server + path, { ...options, method, headers }, (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end(body);
    });
  // The API server answers 429 to the first reads of a kind that nobody watches, as of Shares.
  const answered = async (each) => {
    for (;;) {
      const status = await call(each);
      if (status !== 429) return status;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  (async () => {
    for (const each of JSON.parse(process.argv[1])) console.log(await answered(each));
  })();
`;
type Call = readonly [method: string, path: string, body?: string];

async function statuses(
  component: Component,
  calls: readonly Call[],
): Promise<Readonly<Record<string, number>>> {
  const pod = ['--namespace', facts.namespace, 'exec', `deployment/${release}-${component}`, '--'];
  const output = await kubectl([
    ...pod,
    '/usr/local/bin/node',
    '--eval',
    caller,
    JSON.stringify(calls),
  ]);
  const codes = output.split('\n').map(Number);
  return Object.fromEntries(
    calls.map(([method, path], index) => [`${method} ${path}`, codes[index] ?? 0]),
  );
}

const ours = `/apis/conversation-operator.dev/v1alpha1/namespaces/${facts.sandboxes}`;
const core = `/api/v1/namespaces/${facts.sandboxes}`;
const aPod = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'none' },
  spec: {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'a',
        image: 'a',
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
  },
});
const aKey = JSON.stringify({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'ApiKey',
  metadata: { name: 'key-none' },
  spec: { owner: 'missing', sha256: 'a'.repeat(64) },
});

/** Calls that every account is denied, whatever they would be useful for. */
const forbidden: readonly Call[] = [
  ...[facts.sandboxes, facts.namespace, 'kube-system'].map((namespace): Call => [
    'GET',
    `/api/v1/namespaces/${namespace}/secrets`,
  ]),
  ['GET', '/api/v1/secrets'],
  ['GET', `/api/v1/namespaces/${facts.namespace}/secrets/${release}-master-key`],
  ['GET', `/api/v1/namespaces/${facts.namespace}/pods`],
  ['GET', '/api/v1/pods'],
  ['GET', '/api/v1/nodes'],
  ['GET', '/api/v1/namespaces'],
  ['GET', `${core}/configmaps`],
  ['GET', '/apis/conversation-operator.dev/v1alpha1/conversations'],
  ['POST', `${core}/pods/none/exec?command=ls`],
  ['GET', `${core}/pods/none/log`],
  ['POST', `${core}/serviceaccounts/default/token`, '{}'],
  ['PATCH', `${ours}/apikeys/none`, '{}'],
  ['PATCH', `${ours}/sandboxtemplates/default?dryRun=All`, '{}'],
  ['PATCH', `${ours}/conversationquotas/default?dryRun=All`, '{}'],
  [
    'POST',
    `/apis/rbac.authorization.k8s.io/v1/namespaces/${facts.sandboxes}/rolebindings?dryRun=All`,
    '{}',
  ],
  ['GET', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'],
  [
    'PATCH',
    '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/conversations.conversation-operator.dev?dryRun=All',
    '{}',
  ],
];

const allowed: Readonly<Record<Component, readonly Call[]>> = {
  operator: [
    ['GET', core],
    ['GET', `${core}/pods`],
    ['POST', `${core}/pods?dryRun=All`, aPod],
    ['GET', `${core}/persistentvolumeclaims`],
    ['GET', `${ours}/conversations`],
    ['GET', `${ours}/sandboxes`],
    ['GET', `${ours}/handovers`],
    ['GET', `${ours}/usagerecords`],
    [
      'GET',
      `/apis/coordination.k8s.io/v1/namespaces/${facts.sandboxes}/leases/conversation-operator`,
    ],
  ],
  gateway: [
    ['GET', `${ours}/conversations`],
    ['GET', `${ours}/sandboxes`],
    ['GET', `${ours}/apikeys`],
    ['POST', `${ours}/apikeys?dryRun=All`, aKey],
    ['GET', `${ours}/ownersettings`],
    ['GET', `${ours}/shares`],
    ['GET', `${ours}/handovers`],
    ['GET', `${ours}/conversationquotas`],
    ['GET', `${ours}/usagerecords`],
  ],
};
const notOfTheOther: Readonly<Record<Component, readonly Call[]>> = {
  operator: [
    ['GET', `${ours}/apikeys`],
    ['GET', `${ours}/ownersettings`],
    ['GET', `${ours}/shares`],
    ['POST', `${ours}/apikeys?dryRun=All`, aKey],
    ['POST', `${ours}/conversations?dryRun=All`, '{}'],
    // People offer and answer.
    ['POST', `${ours}/handovers?dryRun=All`, '{}'],
    ['PATCH', `${ours}/handovers/none`, '{}'],
    // The gateway alone writes settings.
    ['PATCH', `${ours}/ownersettings/none`, '{}'],
    ['PATCH', `${ours}/usagerecords/none/status`, '{}'],
  ],
  gateway: [
    ['GET', `${core}/pods`],
    ['POST', `${core}/pods?dryRun=All`, aPod],
    ['GET', `${core}/persistentvolumeclaims`],
    ['DELETE', `${core}/persistentvolumeclaims/none`],
    ['PATCH', `${ours}/sandboxes/none/status`, '{}'],
    ['DELETE', `${ours}/ownersettings/none`],
    ['DELETE', `${ours}/handovers/none`],
    ['PATCH', `${ours}/handovers/none/status`, '{}'],
    ['PATCH', `${ours}/shares/none`, '{}'],
    ['DELETE', `${ours}/usagerecords/none`],
    [
      'GET',
      `/apis/coordination.k8s.io/v1/namespaces/${facts.sandboxes}/leases/conversation-operator`,
    ],
  ],
};

describe.each(components)('the service account of the %s', (component) => {
  it('has the rights that are committed, and no other', async () => {
    expect(await rightsOf(facts, component, facts.sandboxes)).toEqual(committed(component));
  });

  it('has none that not everybody has, in any other namespace', async () => {
    for (const namespace of [facts.namespace, 'default', 'kube-system']) {
      expect(await rightsOf(facts, component, namespace)).toEqual(committed('elsewhere'));
    }
  });

  it('may do what it needs, tried from within its pod', async () => {
    for (const [call, status] of Object.entries(await statuses(component, allowed[component]))) {
      expect([call, status]).toEqual([call, call.startsWith('POST') ? 201 : 200]);
    }
  });

  it('is refused everything else, tried from within its pod', async () => {
    for (const [call, status] of Object.entries(
      await statuses(component, [...forbidden, ...notOfTheOther[component]]),
    )) {
      expect([call, status]).toEqual([call, 403]);
    }
  });
});

it('comes up by itself once a RoleBinding is there that was missing', async () => {
  const binding = `rolebinding ${release}-gateway`;
  const { metadata, ...rest } = await getJson<{ metadata: object }>(
    `--namespace ${facts.sandboxes} ${binding}`,
  );
  const { name, labels, annotations } = metadata as {
    name: string;
    labels: object;
    annotations: object;
  };
  const before = JSON.stringify({
    ...rest,
    metadata: { name, namespace: facts.sandboxes, labels, annotations },
  });
  const inRelease = (args: string) => kubectl(`--namespace ${facts.namespace} ${args}`);
  await kubectl(`--namespace ${facts.sandboxes} delete ${binding}`);
  const newestPod = async () => {
    const names = await inRelease(
      'get pods -l app.kubernetes.io/component=gateway --sort-by=.metadata.creationTimestamp -o name',
    );
    return names.split('\n').at(-1) ?? '';
  };
  // The newest: others may be on their way out already, after an upgrade.
  const pod = await newestPod();
  await inRelease(`delete ${pod}`);
  const newest = await eventually('another gateway whose log says what is missing', async () => {
    const name = await newestPod();
    return (
      name !== pod &&
      /is forbidden.*cannot list/.test(await inRelease(`logs ${name} --tail=100`)) &&
      name
    );
  });
  const ready = (name: string) =>
    inRelease(
      `get ${name} -o jsonpath={.status.containerStatuses[0].ready}/{.status.containerStatuses[0].restartCount}`,
    );
  expect(await ready(newest)).toBe('false/0');
  // As Helm does it: the next upgrade owns what it finds.
  await kubectl('apply --server-side --field-manager=helm -f -', before);
  await eventually('it to be ready', async () => (await ready(newest)) === 'true/0');
});
