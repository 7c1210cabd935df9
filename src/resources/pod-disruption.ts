import type { SandboxTemplate } from './sandbox-template.ts';

/**
 * Annotations of a pod that permit or forbid the cluster autoscaler and Karpenter to empty its
 * node. Neither API has a field for that.
 */

/** `"false"` keeps the node; `"true"` permits its removal, even for a pod with an emptyDir. */
export const safeToEvictAnnotation = 'cluster-autoscaler.kubernetes.io/safe-to-evict';
/** `"true"` keeps the node. Karpenter has no opposite: absent permits its removal. */
export const doNotDisruptAnnotation = 'karpenter.sh/do-not-disrupt';

export const disruptionAnnotations = [safeToEvictAnnotation, doNotDisruptAnnotation] as const;
export type DisruptionAnnotation = (typeof disruptionAnnotations)[number];

/** Values of the annotations; undefined for one that is absent. */
export type DisruptionValues = Readonly<Record<DisruptionAnnotation, string | undefined>>;

/** For a pod whose agent works, or waits for the answer of a person. */
export const keepsNode: DisruptionValues = {
  [safeToEvictAnnotation]: 'false',
  [doNotDisruptAnnotation]: 'true',
};
/** For a pod whose end interrupts nothing. */
export const letsNodeGo: DisruptionValues = {
  [safeToEvictAnnotation]: 'true',
  [doNotDisruptAnnotation]: undefined,
};

/** The annotations that keep the node of a pod; those of its template take precedence. */
export function annotationsToKeepNode(
  template: SandboxTemplate | undefined,
): Readonly<Record<string, string>> {
  const { annotations = {} } = template?.spec.podTemplate.metadata ?? {};
  const values = Object.entries(presentValues(keepsNode));
  return Object.fromEntries(values.filter(([key]) => annotations[key] === undefined));
}

/** The values that are present. */
export const presentValues = (
  values: Readonly<Record<string, string | undefined>> | undefined,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    disruptionAnnotations.flatMap((key) => {
      const value = values?.[key];
      return value === undefined ? [] : [[key, value]];
    }),
  );
