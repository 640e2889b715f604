"""Writers, one file a format: run(params, batches, task) writes files in a worker and yields one
report row a file. job.py is a write from start to end. The promises of Dataset.write_...():

All files of a write appear in the folder together when everything is written. Their names are <id
of the write>_<task>_<file of the task>.<ending>: no other write has them, on whatever machine, and
they sort as the rows and, by the time of their start, the writes do; the bytes are the same each
time. `mode` says what happens to files that are there. Beside other writes into the folder:
"append" takes no notice of them, and loses nothing; "error" is a ValueError, too, when another
write has put files there meanwhile, which stay; "overwrite" removes the files that were there when
it began, and files that another write of that mode has put there since (the last one to commit has
the folder), but not files that were appended meanwhile. Where files are written in place (file
systems that are not local) two that overwrite at once leave the files of both. If a name from a
filename_provider is taken there is a FileExistsError (with "overwrite" only if the file was not
there when the write began).

resume=True: a job (its operators, functions, input files, options) is written into its folder once,
however often the program is killed and started again. What is done is kept in
<path>/.skate-job/log, which stays there; remove the folder .skate-job to write the same again.
ValueError: the log is of another job that has not ended, or the plan has no lasting units
(from_items and the like have, a materialized Dataset, limit, union and zip have not). Files hold
rows of one unit of the input each; batches of map_batches do not cross units; so min_rows_per_file
is refused. A target that is not local needs a local folder for the log, resume="/logs"; files are
in their places there before the job ends. A filename_provider must follow from its arguments alone.
DataContext.checkpoint_config does the same with Ray's name (skate.data.checkpoint).
"""
