import { systemCodeOf } from '@conversation-operator/base/system-code';
import { StoreError, type StoreErrorCode } from './store-error.ts';

/** Codes of the system that do not mean `unavailable`. */
const codes: ReadonlyMap<string, StoreErrorCode> = new Map([
  ['EACCES', 'denied'],
  ['EPERM', 'denied'],
  ['EROFS', 'denied'],
  ['EISDIR', 'invalid'],
  ['ENOTDIR', 'invalid'],
  ['ENOTEMPTY', 'invalid'],
  ['ELOOP', 'invalid'],
  ['ENAMETOOLONG', 'invalid'],
  ['EFBIG', 'invalid'],
  // A folder of the store is the root of another file system.
  ['EXDEV', 'invalid'],
  ['EINVAL', 'invalid'],
]);

/** Returns the error of a store for one of the file system. `action`: `store a/b`, for example. */
export function folderErrorOf(error: unknown, action: string): StoreError {
  if (error instanceof StoreError) return error;
  const systemCode = systemCodeOf(error) ?? 'an unknown error';
  const message = `The folder of the store can not ${action}: ${systemCode}`;
  return new StoreError(codes.get(systemCode) ?? 'unavailable', message, { cause: error });
}
