import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { apply, kubectl } from '../../e2e/support/cluster.ts';
import { privateAuthority } from '../../support/private-authority.ts';
import { namespace, sandboxes } from './installation.ts';

/** First user of the range that this platform gives to the namespaces of the release. */
export const chosenUser = 1_000_650_000;
const lastUser = chosenUser + 9_999;

interface SecurityContext {
  readonly runAsUser?: number;
  readonly fsGroup?: number;
}

interface Container {
  readonly securityContext?: SecurityContext;
}

interface Pod {
  readonly spec: {
    readonly securityContext?: SecurityContext;
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
  };
}

interface AdmissionReview {
  readonly request: { readonly uid: string; readonly object: Pod };
}

const userOf = ({ securityContext = {} }: Container): SecurityContext => securityContext;

/** restricted-v2 of OpenShift refuses users and groups out of its range, and sets absent ones. */
function admit({ spec }: Pod) {
  const { securityContext = {}, containers, initContainers = [] } = spec;
  const outOfRange = [securityContext, ...[...containers, ...initContainers].map(userOf)]
    .flatMap(({ runAsUser, fsGroup }) => [runAsUser, fsGroup])
    .find((id) => id !== undefined && (id < chosenUser || id > lastUser));
  if (outOfRange !== undefined) {
    const message = `${outOfRange}: must be in the ranges: [${chosenUser}, ${lastUser}]`;
    return { allowed: false, status: { code: 403, message } };
  }
  const withUsers = (of: readonly Container[]) =>
    of.map((each) => ({ ...each, securityContext: { runAsUser: chosenUser, ...userOf(each) } }));
  const patch = Object.entries({
    securityContext: { fsGroup: chosenUser, ...securityContext },
    containers: withUsers(containers),
    initContainers: withUsers(initContainers),
  }).map(([field, value]) => ({ op: 'add', path: `/spec/${field}`, value }));
  return {
    allowed: true,
    patchType: 'JSONPatch',
    patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
  };
}

async function review(incoming: IncomingMessage): Promise<string> {
  const { request } = JSON.parse(await text(incoming)) as AdmissionReview;
  const response = { uid: request.uid, ...admit(request.object) };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response });
}

/**
 * Lets the platform choose the user of each pod of the release, by a webhook of the API server,
 * which runs in the network namespace of the tests. Returns what ends that.
 */
export async function chooseUsers(): Promise<() => Promise<void>> {
  const { ca, cert, key } = privateAuthority(['127.0.0.1']);
  const server = createServer({ cert, key }, (incoming, outgoing) => {
    review(incoming).then(
      (answer) => outgoing.setHeader('content-type', 'application/json').end(answer),
      (error: unknown) => outgoing.writeHead(500).end(String(error)),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const name = 'users.platform.test';
  await apply({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name },
    webhooks: [
      {
        name,
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        namespaceSelector: {
          matchExpressions: [
            { key: 'kubernetes.io/metadata.name', operator: 'In', values: [namespace, sandboxes] },
          ],
        },
        clientConfig: {
          url: `https://127.0.0.1:${port}/`,
          caBundle: Buffer.from(ca).toString('base64'),
        },
        rules: [
          { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] },
        ],
      },
    ],
  });
  return async () => {
    await kubectl(`delete mutatingwebhookconfiguration ${name}`);
    server.close();
    server.closeAllConnections();
  };
}
