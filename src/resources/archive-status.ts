import { z } from 'zod';
import { count, described, optional, text, timestamp } from './schema.ts';

/** Name of an object of an archive: a position, and the beginning of a hash of the content. */
const archiveObjectName = () => text(64).regex(/^[0-9]{10}-[0-9a-f]{24}$/);

export const archiveStatusSchema = z.object({
  head: optional(
    archiveObjectName(),
    'Name of the object in the archive that lists the others. Absent: nothing is archived.',
  ),
  events: described(count(), 'Number of archived events.'),
  bytes: described(z.int().min(0), 'Size of the archive in bytes, as stored.'),
  time: optional(timestamp(), 'Time at which the operator last archived events.'),
  files: optional(
    archiveObjectName(),
    "Name of the object with the names of the sandbox's files and the changes in its repository. Absent: there is none.",
  ),
  expiredTime: optional(
    timestamp(),
    'Time at which the operator deleted the archive, because its retention was over. Absent: never.',
  ),
});

export type ArchiveStatus = z.output<typeof archiveStatusSchema>;
