import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import {
  managedBy,
  ownerAnnotation,
  poolLabel,
  resumeRequestedAnnotation,
  runRequestedAnnotation,
  sandboxLabel,
  sessionKeyGenerationAnnotation,
  templateVersionAnnotation,
} from '../../src/resources/sandbox.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { Cluster } from './cluster.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';

type OwnerReferences = NonNullable<KubeObject['metadata']['ownerReferences']>;

export interface TenantMetadataOptions {
  readonly cluster: Cluster;
  readonly random: Random;
  readonly scheduler: Scheduler;
  /** Owner of the objects that get the metadata. */
  readonly owner: string;
}

/** Finalizer that nothing but the tenant removes. */
export const tenantFinalizer = 'example.com/tenant';

/**
 * Metadata that a tenant may write to her own objects: no admission policy restricts references,
 * labels, annotations and finalizers.
 */
export class TenantMetadata {
  readonly #options: TenantMetadataOptions;

  constructor(options: TenantMetadataOptions) {
    this.#options = options;
  }

  /** References to objects of others, and at times to none; to `first` in any case, if given. */
  references(first?: KubeObject): OwnerReferences {
    const { random } = this.#options;
    const objects = [
      ...(first === undefined ? [] : [first]),
      ...Array.from({ length: random.whole(0, 2) }, () => this.#anyOfOthers() ?? []).flat(),
    ];
    const known = new Map(objects.map((object) => [object.metadata.uid, object]));
    const references = [...known.values()].map((object) => this.#referenceTo(object));
    // An API server accepts one controller.
    const controller = random.pick(references)?.uid;
    const isControlled = random.chance(0.7);
    const foreign = random.chance(0.1) ? [this.#foreignReference()] : [];
    return [...references, ...foreign].map((reference) =>
      isControlled && reference.uid === controller
        ? { ...reference, controller: true, blockOwnerDeletion: random.chance(0.5) }
        : reference,
    );
  }

  labels(): Readonly<Record<string, string>> {
    const { random, cluster } = this.#options;
    return this.#some({
      ...managedBy,
      [poolLabel]: random.pick(cluster.pools)?.metadata.name ?? 'warm',
      [sandboxLabel]: random.pick(cluster.sandboxes)?.metadata.name ?? 'missing',
    });
  }

  annotations(): Readonly<Record<string, string>> {
    const { random, scheduler, cluster } = this.#options;
    const { uid = '', generation = 1 } = random.pick(cluster.templates)?.metadata ?? {};
    const others = cluster.conversations.find(({ spec }) => spec.owner !== this.#options.owner);
    return this.#some({
      [ownerAnnotation]: others?.spec.owner ?? 'alice',
      [templateVersionAnnotation]: `${uid}/${generation}`,
      [sessionKeyGenerationAnnotation]: random.pick(['0', '7', '-1', 'many']) ?? '0',
      [resumeRequestedAnnotation]: new Date(scheduler.now()).toISOString(),
      [runRequestedAnnotation]: String(random.whole(1, 3)),
    });
  }

  #some(values: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const { random } = this.#options;
    return Object.fromEntries(Object.entries(values).filter(() => random.chance(0.3)));
  }

  #anyOfOthers(): KubeObject | undefined {
    const { random, cluster, owner } = this.#options;
    const choice = random.next();
    if (choice < 0.7)
      return random.pick(cluster.conversations.filter(({ spec }) => spec.owner !== owner));
    if (choice < 0.85)
      return random.pick(
        [...cluster.sandboxes, ...cluster.warmSandboxes].filter(({ spec }) => spec.owner !== owner),
      );
    return random.pick(cluster.pools);
  }

  #referenceTo({ metadata: { name, uid }, kind }: KubeObject): OwnerReferences[number] {
    return { apiVersion, kind, name, uid };
  }

  /**
   * A reference to an object of another group whose kind has the same name: no API server serves
   * that object, so garbage collection keeps the reference for ever.
   */
  #foreignReference(): OwnerReferences[number] {
    const uid = '00000000-0000-4000-8000-000000000000';
    return { apiVersion: 'example.com/v1', kind: conversations.kind, name: 'foreign', uid };
  }
}
