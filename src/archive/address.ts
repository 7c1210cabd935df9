/** The archive of one Conversation: its namespace and UID, which are the folders of its objects. */
export interface ArchiveAddress {
  readonly namespace: string;
  readonly uid: string;
}

/** An archive in one of its states: the objects that a head names never change. */
export interface ArchiveState extends ArchiveAddress {
  /** `status.archive.head` of the Conversation. */
  readonly head: string;
  /** `status.archive.files`: name of the snapshot of files. Absent: there is none. */
  readonly files?: string | undefined;
}
