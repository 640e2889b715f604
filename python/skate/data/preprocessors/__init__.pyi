# The public names, each with where it is defined: for type checkers, and read by _lazy.Names.

from skate.data.preprocessors.chain import Chain as Chain
from skate.data.preprocessors.concatenator import Concatenator as Concatenator
from skate.data.preprocessors.discretizer import CustomKBinsDiscretizer as CustomKBinsDiscretizer
from skate.data.preprocessors.discretizer import UniformKBinsDiscretizer as UniformKBinsDiscretizer
from skate.data.preprocessors.encoder import Categorizer as Categorizer
from skate.data.preprocessors.encoder import LabelEncoder as LabelEncoder
from skate.data.preprocessors.encoder import MultiHotEncoder as MultiHotEncoder
from skate.data.preprocessors.encoder import OneHotEncoder as OneHotEncoder
from skate.data.preprocessors.encoder import OrdinalEncoder as OrdinalEncoder
from skate.data.preprocessors.imputer import SimpleImputer as SimpleImputer
from skate.data.preprocessors.scaler import MaxAbsScaler as MaxAbsScaler
from skate.data.preprocessors.scaler import MinMaxScaler as MinMaxScaler
from skate.data.preprocessors.scaler import Normalizer as Normalizer
from skate.data.preprocessors.scaler import PowerTransformer as PowerTransformer
from skate.data.preprocessors.scaler import RobustScaler as RobustScaler
from skate.data.preprocessors.scaler import StandardScaler as StandardScaler
from skate.data.preprocessors.torch import TorchVisionPreprocessor as TorchVisionPreprocessor
from skate.data.preprocessors.vectorizer import CountVectorizer as CountVectorizer
from skate.data.preprocessors.vectorizer import FeatureHasher as FeatureHasher
from skate.data.preprocessors.vectorizer import HashingVectorizer as HashingVectorizer
from skate.data.preprocessors.vectorizer import Tokenizer as Tokenizer
