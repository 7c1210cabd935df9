import type { PlaneRequest, PlaneResponse } from '../../packages/local-cluster/src/api/request.ts';
import type { Lease } from '@conversation-operator/kube/core';

export interface LeaseChange {
  readonly type: 'ADDED' | 'MODIFIED';
  readonly lease: Lease;
}

const path = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/;

/**
 * Leases as an API server keeps them, without schema, defaults and watches. A simulated operator
 * asks for its lease more often than for everything else together, so the whole control plane would
 * spend most of a simulation on them.
 */
export class LeaseStore {
  readonly #leases = new Map<string, Lease>();
  readonly #onChange: (change: LeaseChange) => void;
  #version = 0;

  constructor({ onChange }: { readonly onChange: (change: LeaseChange) => void }) {
    this.#onChange = onChange;
  }

  /** The response; undefined for a request that is not about a lease. */
  handle({ method, path: requested, body = '{}' }: PlaneRequest): PlaneResponse | undefined {
    const [, namespace = '', name] = path.exec(requested) ?? [];
    if (namespace === '') return undefined;
    if (method === 'POST') return this.#create(namespace, JSON.parse(body) as Lease);
    if (method === 'GET' && name === undefined)
      return answer(200, {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'LeaseList',
        metadata: { resourceVersion: String(this.#version) },
        items: [...this.#leases.values()].filter(
          ({ metadata }) => metadata.namespace === namespace,
        ),
      });
    const stored = this.#leases.get(`${namespace}/${name ?? ''}`);
    if (stored === undefined) return status(404, 'NotFound');
    if (method === 'GET') return answer(200, stored);
    if (method !== 'PUT') return status(405, 'MethodNotAllowed');
    const sent = JSON.parse(body) as Lease;
    if (sent.metadata.resourceVersion !== stored.metadata.resourceVersion)
      return status(409, 'Conflict');
    return this.#put('MODIFIED', 200, {
      ...stored,
      metadata: { ...stored.metadata, ...annotationsOf(sent) },
      ...(sent.spec === undefined ? {} : { spec: sent.spec }),
    });
  }

  #create(namespace: string, sent: Lease): PlaneResponse {
    if (this.#leases.has(`${namespace}/${sent.metadata.name}`)) return status(409, 'AlreadyExists');
    return this.#put('ADDED', 201, {
      ...sent,
      metadata: { ...sent.metadata, namespace, uid: `lease-${sent.metadata.name}` },
    });
  }

  #put(type: LeaseChange['type'], code: number, lease: Lease): PlaneResponse {
    const stored = {
      ...lease,
      metadata: { ...lease.metadata, resourceVersion: String(++this.#version) },
    };
    this.#leases.set(`${stored.metadata.namespace ?? ''}/${stored.metadata.name}`, stored);
    this.#onChange({ type, lease: stored });
    return answer(code, stored);
  }
}

const annotationsOf = ({ metadata: { annotations } }: Lease) =>
  annotations === undefined ? {} : { annotations };

const answer = (code: number, body: object): PlaneResponse => ({
  status: code,
  headers: {},
  body: JSON.stringify(body),
});
const status = (code: number, reason: string): PlaneResponse =>
  answer(code, {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    code,
    reason,
    message: `The lease request failed: ${reason}`,
  });
