# The public names, each with where it is defined: for type checkers, and read by _lazy.Names.

from skate.data.datasource.datasink import Datasink as Datasink
from skate.data.datasource.datasink import DummyOutputDatasink as DummyOutputDatasink
from skate.data.datasource.datasink import WriteResult as WriteResult
from skate.data.datasource.datasink import WriteReturnType as WriteReturnType
from skate.data.datasource.datasource import Datasource as Datasource
from skate.data.datasource.datasource import RandomIntRowDatasource as RandomIntRowDatasource
from skate.data.datasource.datasource import Reader as Reader
from skate.data.datasource.datasource import ReadTask as ReadTask
from skate.data.datasource.file_based_datasource import FileBasedDatasource as FileBasedDatasource
from skate.data.datasource.file_datasink import BlockBasedFileDatasink as BlockBasedFileDatasink
from skate.data.datasource.file_datasink import RowBasedFileDatasink as RowBasedFileDatasink
from skate.data.datasource.filename_provider import FilenameProvider as FilenameProvider
from skate.data.datasource.partitioning import Partitioning as Partitioning
from skate.data.datasource.partitioning import PartitionStyle as PartitionStyle
from skate.data.datasource.partitioning import PathPartitionFilter as PathPartitionFilter
from skate.data.datasource.partitioning import PathPartitionParser as PathPartitionParser
from skate.data.random_config import FileShuffleConfig as FileShuffleConfig
from skate.data.write.mode import SaveMode as SaveMode
