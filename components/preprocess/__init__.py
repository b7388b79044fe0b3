"""Raw reviews to training samples: NVTabular over a Dask-partitioned data set, on pandas or cuDF.

In the order of the work: ``raw_files`` finds and streams the input, ``reviews`` and ``items`` parse it, ``user_runs``
sorts it by user on disk, ``histories`` keeps the users with enough reviews, ``encoding`` turns names into ids,
``samples`` cuts histories into samples and ``sample_files`` writes them.
"""
