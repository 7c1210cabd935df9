import type { SandboxTemplate } from './sandbox-template.ts';

/**
 * Annotations of a pod by which the cluster autoscaler and Karpenter keep or remove its node. A pod
 * has no field for this.
 */

/** "false" keeps the node. "true" permits its removal, even if the pod has an emptyDir. */
export const safeToEvictAnnotation = 'cluster-autoscaler.kubernetes.io/safe-to-evict';
/** "true" keeps the node. Karpenter permits the removal only if the annotation is absent. */
export const doNotDisruptAnnotation = 'karpenter.sh/do-not-disrupt';

export const disruptionAnnotations = [safeToEvictAnnotation, doNotDisruptAnnotation] as const;
export type DisruptionAnnotation = (typeof disruptionAnnotations)[number];

/** Values of the annotations; undefined for an annotation that must be absent. */
export type DisruptionValues = Readonly<Record<DisruptionAnnotation, string | undefined>>;

/** Annotations of a pod whose agent works, or waits for an answer of a person. */
export const keepsNode: DisruptionValues = {
  [safeToEvictAnnotation]: 'false',
  [doNotDisruptAnnotation]: 'true',
};
/** Annotations of a pod that can be deleted without the interruption of a run. */
export const letsNodeGo: DisruptionValues = {
  [safeToEvictAnnotation]: 'true',
  [doNotDisruptAnnotation]: undefined,
};

/** Annotations that keep the node of a pod, except those that its template sets. */
export function annotationsToKeepNode(
  template: SandboxTemplate | undefined,
): Readonly<Record<string, string>> {
  const { annotations = {} } = template?.spec.podTemplate.metadata ?? {};
  const values = Object.entries(presentValues(keepsNode));
  return Object.fromEntries(values.filter(([key]) => annotations[key] === undefined));
}

/** The entries of `values` that are disruption annotations and have a value. */
export const presentValues = (
  values: Readonly<Record<string, string | undefined>> | undefined,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    disruptionAnnotations.flatMap((key) => {
      const value = values?.[key];
      return value === undefined ? [] : [[key, value]];
    }),
  );
