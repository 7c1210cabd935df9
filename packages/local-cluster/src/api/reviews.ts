import { objectAt, type Json } from '../json/json.ts';
import type { PlaneResponse } from './request.ts';
import { jsonResponse } from './respond.ts';

/** Only user of the cluster. Every client with the token is this user and may do everything. */
const user = { username: 'admin', groups: ['system:masters', 'system:authenticated'] };
const everything = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] };

const bodiesByPlural: Readonly<Record<string, (body: Json) => object>> = {
  selfsubjectaccessreviews: (body) => ({
    kind: 'SelfSubjectAccessReview',
    apiVersion: 'authorization.k8s.io/v1',
    metadata: {},
    spec: objectAt(body, 'spec') ?? {},
    status: { allowed: true },
  }),
  selfsubjectrulesreviews: (body) => ({
    kind: 'SelfSubjectRulesReview',
    apiVersion: 'authorization.k8s.io/v1',
    metadata: {},
    spec: objectAt(body, 'spec') ?? {},
    status: {
      resourceRules: [everything],
      nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }],
      incomplete: false,
    },
  }),
  selfsubjectreviews: () => ({
    kind: 'SelfSubjectReview',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: {},
    status: { userInfo: user },
  }),
};

/** Virtual kinds that are answered and not stored, by group for discovery. */
export const reviewKinds = [
  {
    group: 'authorization.k8s.io',
    version: 'v1',
    plural: 'selfsubjectaccessreviews',
    kind: 'SelfSubjectAccessReview',
  },
  {
    group: 'authorization.k8s.io',
    version: 'v1',
    plural: 'selfsubjectrulesreviews',
    kind: 'SelfSubjectRulesReview',
  },
  {
    group: 'authentication.k8s.io',
    version: 'v1',
    plural: 'selfsubjectreviews',
    kind: 'SelfSubjectReview',
  },
] as const;

/** Answers a review; undefined for any other kind. */
export function reviewResponse(
  group: string,
  plural: string,
  body: () => Json,
): PlaneResponse | undefined {
  const known = reviewKinds.some((kind) => kind.group === group && kind.plural === plural);
  const response = known ? bodiesByPlural[plural]?.(body()) : undefined;
  return response === undefined ? undefined : jsonResponse(201, response);
}
