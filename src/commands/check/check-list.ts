import { admissionCheck } from './admission.ts';
import { apiServerCheck } from './api-server.ts';
import { bucketCheck } from './bucket.ts';
import { clockCheck } from './clock-skew.ts';
import { definitionsCheck } from './definitions.ts';
import { dnsCheck } from './dns.ts';
import { gitHostsCheck } from './git-hosts.ts';
import { imagesCheck } from './images.ts';
import { networkPolicyCheck } from './network-policy.ts';
import { architectureCheck, runtimeClassCheck } from './nodes.ts';
import { outwardCheck } from './outward.ts';
import { podSecurityCheck } from './pod-security.ts';
import { quotaCheck } from './quota.ts';
import { rightsCheck } from './rights.ts';
import type { Check } from './scene.ts';
import { storageClassCheck } from './storage-class.ts';
import { trustCheck } from './trust.ts';
import { volumeCheck } from './volume.ts';

/** All checks, in the order of the report. The first one decides whether others have a subject. */
export const allChecks: readonly Check[] = [
  apiServerCheck,
  dnsCheck,
  clockCheck,
  rightsCheck,
  definitionsCheck,
  podSecurityCheck,
  admissionCheck,
  quotaCheck,
  runtimeClassCheck,
  architectureCheck,
  storageClassCheck,
  volumeCheck,
  imagesCheck,
  trustCheck,
  networkPolicyCheck,
  outwardCheck,
  gitHostsCheck,
  bucketCheck,
];
